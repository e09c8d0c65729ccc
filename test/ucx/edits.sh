# shellcheck shell=bash
# How glex is entered into UCX's test suite, for contrib/ucx-gtest: edits of a copy of test/gtest.
# Sourced after contrib/lib.sh.

# Enter glex into the suite's lists of transports, beside tcp, whose capabilities are the most
# alike, and where one test runs over all transports. UCX's macros count to 20, and 1.20 has as many
# in its list: a transport of Cray's, which is on no machine with GLEX, makes room.
edit_lists()
{
    sed -E -i '/^#define UCT_TEST_NO_SELF_TLS/,/[^\\]$/ {
            s/^( *)tcp,/\1glex, tcp,/
            s/^( *)ugni_udt,/\1/
        }' uct/uct_test.h
    sed -E -i '/^#define UCT_MD_INSTANTIATE_TEST_CASE/,/[^\\]$/ s/^( *)posix,/\1glex, posix,/' \
        uct/test_md.cc
    # Lines of macros: NAME(_test_case, tcp, "tcp"), in one line or two.
    sed -E -i '
        /INSTANTIATE_TEST_CASE_TLS(_GPU_AWARE)?\(_test_case, *tcp, *\\$/ N
        /INSTANTIATE_TEST_CASE_TLS(_GPU_AWARE)?\(_test_case, *tcp,.*"tcp"\)/ {
            h
            s/\btcp,/glex,/
            s/"tcp"\)( \\)?$/"glex") \\/
            p
            g
        }' ucp/*.h ucp/*.cc
    sed -E -i '/^UCP_INSTANTIATE_TEST_CASE_TLS\(test_[a-z_]*, all, "all"\)/ {
            h
            s/all, "all"/glex, "glex"/
            p
            g
        }' ucp/*.cc
}

# A connection by IP address begins on a transport of that address's network device, and changes to
# the best one (UCX, wireup_cm.c): glex never is alone there.
edit_sockaddr()
{
    sed -E -i '
        s/(UCP_INSTANTIATE_TEST_CASE) \((_test_case)\)/\1_TLS(\2, glex, "glex")/
        s/"glex"/"glex,tcp"/' ucp/test_ucp_sockaddr.cc
}

# The test makes a call fail and waits for what the wireup does then: keepalive, which makes the
# same call, would take the failure for itself.
edit_keepalive()
{
    sed -E -i '
        s|^ *ucs::sock_addr_storage m_test_addr;|&\n    const char *m_keepalive = NULL;|
        s/"KEEPALIVE_INTERVAL", ("[0-9]+s")/"KEEPALIVE_INTERVAL", m_keepalive ? m_keepalive : \1/
        /^    test_ucp_sockaddr_wireup_fail\(\) \{/,/\}/ {
            s|m_num_fail_injections = 0;|& m_keepalive = "inf";|
        }' ucp/test_ucp_sockaddr.cc
}

# Meant for two transports by name, and right for any that queues what it sends: a get over the
# software NIC is done at once, and would never be refused.
edit_cancel()
{
    sed -E -i '
        /void check_skip_test_tl\(\) \{/,/^    \}/ {
            s|\(GetParam\(\)->tl_name != "dc_mlx5"\)|& \&\& !has_transport("glex")|
        }
        /UCS_TEST_SKIP_COND_P\(uct_cancel_test, get_[bz]copy,/,/\{/ {
            s/!check_caps\(UCT_IFACE_FLAG_GET_[BZ]COPY\)/& || has_transport("glex")/
        }' uct/test_flush.cc
}

# The test sleeps in the sender until a message of several fragments is sent, while the receiver, in
# the same thread, may not have been woken for the first time. UCX leaves it out for tcp, where a
# zero-copy send also ends only when the receiver has taken part; so with glex.
edit_wakeup()
{
    sed -E -i 's/\btx_wait, has_transport\("tcp"\)/& || has_transport("glex")/' \
        ucp/test_ucp_wakeup.cc
}

# Tests pack keys of any transport into eight bytes on their stack (test_md.alloc only in 1.16): give
# them the room that the transport asked for.
edit_key_size()
{
    sed -E -i '/^UCS_TEST_SKIP_COND_P\(test_md, (invalidate|alloc),/,/^}/ {
            s/std::set<uint64_t> keys_set/std::set<std::string> keys_set/
            s/uint64_t key;/std::string key(md_attr().rkey_packed_size, 0);/
            s/&key\)/\&key[0])/
        }' uct/test_md.cc
}

# 1.14 and 1.15 invalidate handles whose keys were never packed, and expect the completion after a
# handle that is not: so it is where registrations are cached, and all handles are one. glex leaves
# the cache to UCP there. Let the test do what it does since 1.16: pack each, invalidate the last.
edit_invalidate()
{
    if ! grep -q EXPORTED_MKEY uct/test_md.cc || ! grep -q 'limit *= 2000 /' uct/test_md.cc; then
        return 0
    fi
    sed -i '/^UCS_TEST_SKIP_COND_P(test_md, invalidate,/,/^}/ {
            s|\(limit *= \)2000 / ucs::test_time_multiplier()|\164|
            /for (iter = 1;/,/^        }/ s/memhs.push_back(memh);/&\
            ASSERT_UCS_OK(uct_md_mkey_pack_v2(md(), memh, \&pack_params, \&key[0]));/
            s/(iter & 1) == 0/(iter \& 1) != (mem_reg_count \& 1)/
        }' uct/test_md.cc
}

# The test takes for granted that no domain both allocates memory and has its registrations cached:
# what is allocated there is registered, but not in the cache. glex's is the first that does both.
edit_alloc_rereg()
{
    sed -i 's/^UCS_TEST_P(\(test_ucp_mmap, alloc_rereg\))/UCS_TEST_SKIP_COND_P(\1, \
                 has_transport("glex"))/' ucp/test_ucp_mmap.cc
}

# The test waits until it sees a message of which a part is sent. Its messages are of two pieces
# each, and glex has room for an even number of pieces: none is ever cut. Of three pieces some are.
edit_proto_reset()
{
    sed -i 's/\(size_t msg_size *= UCS_KBYTE \* \)70\b/\1140/' ucp/test_ucp_request.cc
}

# Tests of requests that are restarted while RMA is on its way are left out for transports whose RMA
# is done at once, by name: so it is over the software NIC.
edit_pending_rma()
{
    sed -i 's/"sysv", "posix"};/"sysv", "posix", "glex"};/' ucp/test_ucp_request.cc
}

# A receive that ends at once, as a rendezvous may whose data is fetched at once, calls its callback
# with a user pointer that this test does not set (UCX 1.18 passes it on all the same), or is no
# request that could be asked for its status.
edit_immediate_receives()
{
    sed -i '/send_rndv_msg_probe/,/^}/ s/^\( *\)param\.cb\.recv *= recv_callback;/&\
\1param.user_data    = NULL;/' ucp/test_ucp_tag_probe.cc
    sed -i '/void do_force_close_during_rndv(/,/^    }/ {
            s/request_progress(rreq,/(rreq == NULL) ? UCS_OK : &/
        }' ucp/test_ucp_sockaddr.cc
}

# The test is for transports that can say to whom an endpoint is connected, which it lists by name.
edit_is_connected()
{
    sed -i '/UCS_TEST_SKIP_COND_P(test_uct_ep, is_connected,/,/{/ {
            s/!has_transport("tcp")/& \&\& !has_transport("glex")/
        }' uct/test_uct_ep.cc
}

# Since 1.19 UCX leaves most tests of tags out, on any transport, for a bug of cards that match tags.
edit_tags()
{
    sed -i '/^bool skip_hw_tm_offload()/,/^}/ s/return true;/return false;/' \
        common/test_helpers.cc
}

# These tests expect the first message of an endpoint to be taken at once. glex connects when it is
# asked for it, and says NO_RESOURCE meanwhile, which UCT allows: send it again.
edit_first_message()
{
    sed -i '/UCS_TEST_SKIP_COND_P(test_uct_pending, send_ooo_with_comp,/,/^}/ {
            s/ucs_status_t status = uct_ep_am_zcopy(/ucs_status_t status;\
    do {\
        progress();\
        status = uct_ep_am_zcopy(/
            s/^ *ASSERT_FALSE(UCS_STATUS_IS_ERR(status));/    } while (status == UCS_ERR_NO_RESOURCE);\
&/
        }' uct/test_pending.cc
    sed -i '/^    void test_align(/,/^    }/ {
            s/ucs_status_t status = (this->\*send_f)(sender_ep(), sendbuf, sendbuf);/ucs_status_t status;\
        do {\
            progress();\
            status = (this->*send_f)(sender_ep(), sendbuf, sendbuf);\
        } while (status == UCS_ERR_NO_RESOURCE);/
        }' uct/test_p2p_am.cc
}

# Tests of choosing devices exclude one, and need others to be left: tcp's beside glex's.
edit_devices()
{
    sed -i '/^UCP_INSTANTIATE_TEST_CASE_TLS(test_ucp_devices_config, glex,/ s/"glex"/"glex,tcp"/' \
        ucp/test_ucp_context.cc
}

# edit_suite GTEST: all of them, in that copy of the source's test/gtest.
edit_suite()
{
    local file
    cd "$1" || return
    edit_lists
    edit_sockaddr
    edit_keepalive
    edit_cancel
    edit_wakeup
    edit_key_size
    edit_invalidate
    edit_alloc_rereg
    edit_proto_reset
    edit_pending_rma
    edit_immediate_receives
    edit_is_connected
    edit_tags
    edit_first_message
    edit_devices
    for file in uct/uct_test.h uct/test_md.cc uct/test_flush.cc ucp/ucp_test.h \
        ucp/test_ucp_sockaddr.cc ucp/test_ucp_wakeup.cc; do
        grep -q glex "$file" || die "no list of transports was found in UCX's test/gtest/$file: \
this version of UCX needs other edits in test/ucx/edits.sh"
    done
}
