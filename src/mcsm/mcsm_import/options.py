"""opensm.conf: the options of OpenSM."""
import re

from .result import hexadecimal, lines_of, number

# Options that change nothing for users of the fabric, or that only tune OpenSM's own code.
IGNORED = """accum_log_file console_port daemon dump_files_dir exit_on_fatal force_log_flush
    fsync_high_avail_files honor_guid2lid_file keep_pkey_indexes log_max_size log_prefix
    long_transaction_timeout m_key_lookup max_msg_fifo_timeout max_smps_timeout max_wire_smps2
    node_name_map_name per_module_logging_file single_thread sweep_on_trap use_mfttop use_ucast_cache
    suppress_sl2vl_mad_status_errors polling_retry_number fdr10 torus_config
    perfmgr""".split()

# The other options without a counterpart, and OpenSM's defaults. A default needs no remark.
DEFAULTS = """allow_both_pkeys FALSE|avoid_throttled_links FALSE|babbling_port_policy FALSE|
    cn_guid_file (null)|congestion_control FALSE|console off|
    connect_roots FALSE|
    consolidate_ipv6_snm_req FALSE|disable_multicast FALSE|do_mesh_analysis FALSE|
    drop_event_subscriptions FALSE|enable_quirks FALSE|event_db_dump_file (null)|
    event_plugin_name (null)|sa_key 0x0000000000000001|
    force_heavy_sweep FALSE|force_link_speed 15|force_link_speed_ext 31|
    guid_routing_order_file (null)|guid_routing_order_no_scatter FALSE|hop_weights_file (null)|
    ids_guid_file (null)|ignore_other_sm FALSE|io_guid_file (null)|
    ipoib_mcgroup_creation_validation TRUE|lash_start_vl 0|leaf_vl_stall_count 0x07|
    lfts_file (null)|lid_matrix_dump_file (null)|lmc_esp0 FALSE|local_phy_errors_threshold 0x08|
    max_reverse_hops 0|mcgroup_join_validation TRUE|no_clients_rereg FALSE|
    nue_include_switches FALSE|nue_max_num_vls 1|overrun_errors_threshold 0x08|
    port_prof_ignore_file (null)|port_profile_switch_nodes FALSE|
    port_search_ordering_file (null)|port_shifting FALSE|quasi_ftree_indexing FALSE|
    reassign_lids FALSE|sa_db_dump FALSE|sa_db_file (null)|scatter_ports 0|
    sm_assigned_guid 0x00|sm_inactive FALSE|sm_sl 0|use_optimized_slvl FALSE|
    use_original_extended_sa_rates_only FALSE|vl_stall_count 0x07"""
DEFAULTS = dict(entry.split() for entry in DEFAULTS.split("|"))

# Remarks that name the closest feature of mcsm.
HINTS = {
    "sa_key": "a request with the secret sm-key is trusted",
    "event_plugin_name": "on-event of [cluster] starts a command for each event",
    "console": "mcsm-ctl(8) has the commands of the console",
    "force_heavy_sweep": "mcsm-ctl reroute starts one heavy sweep",
    "sa_db_file": "hosts register again after a restart",
    "reassign_lids": "mcsm keeps the LIDs of ports",
    "congestion_control": "mcsm sets no tables of congestion control",
}


def is_true(text):
    return text.upper() in ("TRUE", "1", "YES", "ON")


def plain(section, key, low, high, default, form=str):
    """A number that keeps its meaning. The default of OpenSM leaves the default of mcsm."""

    def take(result, value, where):
        n = number(value, low, high)
        if n != default:
            result.set(section, key, form(n), where)

    return take


def take_m_key(result, value, where):
    key = number(value, 0, (1 << 64) - 1)
    if key != 0:
        result.set("cluster", "m-key", hexadecimal(key), where)


def set_lanes(result, count, where):
    """Two options limit the virtual lanes. The lower limit counts."""
    before = result.get("port", "vls")
    if before is None or count < before:
        result.drop("port", ("vls",))
        result.set("port", "vls", count, where)


def take_vls(result, value, where):
    n = number(value, 1, 5)
    if n != 5:
        set_lanes(result, (1, 2, 4, 8)[n - 1], where)


def take_width(result, value, where):
    n = number(value, 0, 255)
    widths = {1: "1x", 3: "4x", 7: "8x", 11: "12x"}
    if n in widths:
        result.set("port", "width", widths[n], where)
    elif n not in (0, 255):
        result.lacks(where, f"force_link_width {n}", "width is any, 1x, 4x, 8x or 12x")


def take_no_enforcement(result, value, where):
    if is_true(value):
        result.set("port", "partition-enforcement", "no", where)


def take_enforcement(result, value, where):
    if value not in ("both", "in", "out", "off"):
        raise ValueError
    if value == "off":
        result.set("port", "partition-enforcement", "no", where)
    elif value != "both":
        result.lacks(where, f"part_enforce {value}", "mcsm enforces both directions, or none")


def take_engine(result, value, where):
    """mcsm takes the first engine that it has. The engines for fat trees become updn."""
    same = {"minhop": "minhop", "updn": "updn", "dor": "dor", "lash": "lash"}
    near = {
        "dnup": "updn",
        "ftree": "updn",
        "torus-2QoS": "torus",
        "nue": "auto",
        "dfsssp": "auto",
        "sssp": "auto",
    }
    names = [name for name in re.split("[, ]+", value) if name not in ("", "(null)", "no_fallback")]
    if not names:
        return
    for name in names:
        if name not in same and name not in near and name != "file":
            raise ValueError
    name = next((n for n in names if n != "file"), "auto")
    engine = same.get(name, near.get(name, "auto"))
    if name not in same:
        result.lacks(where, f"routing_engine {name}", f"the import chooses {engine}")
    if len(names) > 1:
        result.lacks(where, "several routing engines", f"the import chooses {engine}")
    result.set("routing", "engine", engine, where)


def take_polling(result, value, where):
    n = number(value, 0, (1 << 32) - 1)
    if n != 10000:
        result.set("sweep", "standby-interval", min(3600, max(1, round(n / 1000))), where)


def take_log_file(result, value, where):
    if value != "/var/log/opensm.log":
        result.set("cluster", "log-file", value[:199], where)


def take_log_flags(result, value, where):
    flags = number(value, 0, 255)
    level = "debug" if flags & 0xFC else "info" if flags & 2 else "error"
    if level != "info":
        result.set("cluster", "log-level", level, where)


def take_arbitration(key):
    def take(result, value, where):
        if value == "(null)":
            return
        entries = value.split(",")
        for entry in entries:
            vl, weight = entry.split(":")
            number(vl.strip(), 0, 14), number(weight.strip(), 0, 255)
        if len(entries) > 32:
            raise ValueError
        result.set("port", key, value.replace(",", " "), where)

    return take


def take_sl2vl(result, value, where):
    if value == "(null)":
        return
    lanes = [number(vl.strip(), 0, 15) for vl in value.split(",")]
    if len(lanes) != 16:
        raise ValueError
    result.set("port", "sl2vl", " ".join(map(str, lanes)), where)


def take_qos_vls(result, value, where):
    n = number(value, 0, 15)
    fitting = max((count for count in (1, 2, 4, 8, 15) if count <= n), default=0)
    if fitting:
        set_lanes(result, fitting, where)
        if fitting != n:
            result.lacks(where, f"{n} virtual lanes", f"the import chooses {fitting}")


def take_high_limit(result, value, where):
    n = number(value, -1, 255)
    if n >= 0:
        result.set("port", "vlarb-high-limit", n, where)


KEYS = {
    "guid": plain("cluster", "port-guid", 0, (1 << 64) - 1, 0, hexadecimal),
    "m_key": take_m_key,
    "m_key_lease_period": plain("cluster", "m-key-lease", 0, 65535, 0),
    "m_key_protection_level": plain("cluster", "m-key-protect", 0, 3, 0),
    "sm_key": plain("cluster", "shown-sm-key", 0, (1 << 64) - 1, 1, hexadecimal),
    "subnet_prefix": plain("cluster", "subnet-prefix", 1, (1 << 64) - 1, 0xFE80 << 48, hexadecimal),
    "lmc": plain("cluster", "lmc", 0, 7, 0),
    "sm_priority": plain("cluster", "priority", 0, 15, 0),
    "log_file": take_log_file,
    "log_flags": take_log_flags,
    "packet_life_time": plain("port", "packet-life", 0, 31, 0x12),
    "head_of_queue_lifetime": plain("port", "head-of-queue-life", 0, 20, 0x12),
    "leaf_head_of_queue_lifetime": plain("port", "leaf-head-of-queue-life", 0, 20, 0x10),
    "subnet_timeout": plain("port", "subnet-timeout", 0, 31, 18),
    "max_op_vls": take_vls,
    "force_link_width": take_width,
    "no_partition_enforcement": take_no_enforcement,
    "part_enforce": take_enforcement,
    "sweep_interval": plain("sweep", "interval", 0, 86400, 10),
    "max_wire_smps": plain("sweep", "window", 1, 1024, 4),
    "transaction_timeout": plain("sweep", "timeout", 10, 60000, 200),
    "transaction_retries": plain("sweep", "retries", 0, 100, 3),
    "sminfo_polling_timeout": take_polling,
    "perfmgr_sweep_time_s": plain("health", "interval", 1, 86400, 180),
    "routing_engine": take_engine,
}

QOS_KEYS = {
    "qos_max_vls": take_qos_vls,
    "qos_high_limit": take_high_limit,
    "qos_vlarb_high": take_arbitration("vlarb-high"),
    "qos_vlarb_low": take_arbitration("vlarb-low"),
    "qos_sl2vl": take_sl2vl,
}
FILE_KEYS = ("partition_config_file", "root_guid_file", "prefix_routes_file", "qos_policy_file")


def read_options(path, result):
    """The options of opensm.conf with their places. The last line of an option counts."""
    options = {}
    for where, line in lines_of(path):
        words = line.split(None, 1)
        if len(words) < 2 or not re.fullmatch("[A-Za-z0-9_]+", words[0]):
            result.error(where, f'"{line[:60]}": expected "OPTION VALUE"')
            continue
        options[words[0]] = (words[1].strip(), where)
    return options


def take_options(options, result):
    qos = is_true(options.get("qos", ("FALSE", ""))[0])
    for key, (value, where) in options.items():
        taker = KEYS.get(key) or (QOS_KEYS.get(key) if qos else None)
        if taker is not None:
            try:
                taker(result, value, where)
            except ValueError:
                result.error(where, f"{key} {value[:60]}: OpenSM does not allow this value")
        elif needs_remark(key, value, qos):
            result.lacks(where, f"{key} {value}", HINTS.get(key))
    if result.get("cluster", "m-key") is None:
        result.drop("cluster", ("m-key-lease", "m-key-protect"))
    if not is_true(options.get("perfmgr", ("FALSE", ""))[0]):
        result.drop("health", ("interval",))


def needs_remark(key, value, qos):
    if key in IGNORED or key in FILE_KEYS or DEFAULTS.get(key) == value:
        return False
    if key.startswith("qos"):
        return qos and key != "qos" and value not in ("(null)", "0", "-1")
    # The switch of a subsystem needs a remark. The parameters of the subsystem need none.
    return not key.startswith(("perfmgr_", "cc_", "event_plugin_options"))
