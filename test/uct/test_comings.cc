/*
 * Objects that come and go leave nothing behind: after many of each kind, this process has as many
 * mappings and descriptors, as much address space and as much shared memory as after the first few.
 */
#include "traffic.h"

#include <dirent.h>
#include <set>
#include <sys/stat.h>
#include <unistd.h>

namespace
{

const uint8_t AM_ID = 3;

/* What this process holds */
struct Holdings {
    unsigned long maps = 0, fds = 0, vm_kib = 0, shared_kib = 0;
};

unsigned long count_lines(const char *path)
{
    FILE *file = fopen(path, "re");
    unsigned long lines = 0;
    int c;

    while ((file != NULL) && ((c = fgetc(file)) != EOF)) {
        lines += (c == '\n');
    }
    if (file != NULL) {
        fclose(file);
    }
    return lines;
}

/* Descriptors, and the pages of all files behind them, each file once */
void look_at_files(Holdings *holdings)
{
    DIR *dir = opendir("/proc/self/fd");
    std::set<std::pair<dev_t, ino_t>> seen;
    struct dirent *entry;
    struct stat info;

    while ((dir != NULL) && ((entry = readdir(dir)) != NULL)) {
        if (fstatat(dirfd(dir), entry->d_name, &info, 0) != 0) {
            continue; /* "..", or the directory's own */
        }
        ++holdings->fds;
        if (S_ISREG(info.st_mode) && seen.insert({info.st_dev, info.st_ino}).second) {
            holdings->shared_kib += info.st_blocks / 2;
        }
    }
    if (dir != NULL) {
        closedir(dir);
    }
}

Holdings look()
{
    Holdings holdings;
    FILE *file = fopen("/proc/self/statm", "re");
    unsigned long pages = 0;

    EXPECT_EQ(fscanf(file, "%lu", &pages), 1);
    fclose(file);
    holdings.vm_kib = pages * (sysconf(_SC_PAGESIZE) / 1024);
    holdings.maps = count_lines("/proc/self/maps");
    look_at_files(&holdings);
    return holdings;
}

/* Call `once` for a few objects, then for many. malloc() keeps some memory for itself: less than a
 * mapping, a descriptor or a page of shared memory for every tenth object. */
void come_and_go(unsigned count, const std::function<void()> &once)
{
    Holdings first, last;
    unsigned i;

    for (i = 0; i < count / 4; ++i) {
        once();
    }
    first = look();
    for (i = 0; i < count; ++i) {
        once();
    }
    last = look();
    EXPECT_LE(last.maps, first.maps + count / 10);
    EXPECT_LE(last.fds, first.fds);
    EXPECT_LE(last.shared_kib, first.shared_kib + count * 4 / 10);
    EXPECT_LE(last.vm_kib, first.vm_kib + 1024);
}

const unsigned COUNT = 200;

void put_once(Ep &ep, const Memory &memory)
{
    RemoteMemory remote(memory.describe());
    uint64_t value = 42;

    EXPECT_OK(ep.put_short(&value, sizeof(value), remote.address, remote.rkey.rkey));
    EXPECT_EQ(*(uint64_t *)memory.data, value);
}

TEST(Comings, Keys)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());
        Memory memory(md_b, 4096, Memory::NIC);

        come_and_go(COUNT, [&] { put_once(ep, memory); });
    });
}

TEST(Comings, Windows)
{
    isolated({}, [] {
        Md md_a, md_b;
        Iface a(md_a), b(md_b);
        Ep ep(a, b.address());

        come_and_go(COUNT, [&] {
            Memory memory(md_b, 1 << 20, Memory::NIC);

            put_once(ep, memory);
        });
    });
}

/* uct_rkey_ptr() of a key: a load by the pointer finds the memory */
TEST(Comings, PointersOfKeys)
{
    isolated({}, [] {
        Md md;

        come_and_go(COUNT, [&] {
            Memory memory(md, 1 << 20, Memory::NIC);
            RemoteMemory remote(memory.describe());
            void *ptr = NULL;

            memory.data[5] = 77;
            EXPECT_OK(uct_rkey_ptr(component(), &remote.rkey, remote.address, &ptr));
            EXPECT_EQ(((uint8_t *)ptr)[5], 77);
        });
    });
}

/* The pointer belongs to its key, whichever domains come and go */
TEST(Comings, PointerOutlivesOtherDomains)
{
    isolated({}, [] {
        std::unique_ptr<Md> first(new Md());
        Md md;
        Memory memory(md, 4096, Memory::NIC);
        RemoteMemory remote(memory.describe());
        void *ptr = NULL;

        memory.data[0] = 42;
        EXPECT_OK(uct_rkey_ptr(component(), &remote.rkey, remote.address, &ptr));
        first.reset();
        EXPECT_EQ(*(uint8_t *)ptr, 42);
    });
}

TEST(Comings, Endpoints)
{
    isolated({}, [] {
        Md md;
        Iface a(md), b(md);
        unsigned received = 0, sent = 0;

        b.on_am(AM_ID, [&](const void *, size_t) { ++received; });
        come_and_go(COUNT, [&] {
            Ep ep(a, b.address());

            EXPECT_OK(ep.am_short(AM_ID, 0, NULL, 0));
            ++sent;
            progress_until("the message", [&] { return received == sent; });
        });
    });
}

TEST(Comings, Contexts)
{
    isolated({}, [] { come_and_go(COUNT, [] { Md md; }); });
}

} // namespace
