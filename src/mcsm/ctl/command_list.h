/*
 * The commands of mcsm-ctl. The includer defines
 *
 *     COMMAND(name, keyword, arguments, help, run)
 *     HEADING(text)
 *
 * `keyword` is a fixed word after the name, or "". An argument in brackets may be missing. `run` is
 * the manager's function, see mcsm_command_fn. mcsm-ctl makes its help of this list; the manager
 * finds the function.
 */
COMMAND("status", "", "", "state, size of the cluster, last sweep", status)
COMMAND("nodes", "", "", "the nodes that the manager has found", nodes)
COMMAND("ports", "", "", "the ports that the manager has found", ports)
COMMAND("routes", "", "", "how many LIDs leave through each port", routes)
COMMAND("path", "", "A B", "hop by hop; A and B are LIDs, port GUIDs or node descriptions", path)
COMMAND("why", "", "LID", "the reasons for the table entries of a LID", why)
COMMAND("dump", "lft", "", "unicast forwarding tables in the format of OpenSM", dump_lft)
COMMAND("dump", "mft", "", "multicast forwarding tables in the format of OpenSM", dump_mft)
COMMAND("dump", "fabric", "", "the whole cluster, for mcsm-check", dump_fabric)
COMMAND("page", "", "", "a page for a browser: picture, load, errors, routes, credit loops", page)
COMMAND("drain", "", "GUID/PORT", "take a link out of all routes", drain)
COMMAND("undrain", "", "GUID/PORT", "use a drained link again", undrain)
COMMAND("links", "", "", "all links with their errors and traffic", mcsm_links_all)
COMMAND("worst", "", "[N]", "the N worst links (10)", mcsm_links_worst)
COMMAND("counters", "", "GUID/PORT", "all counters of both ends of a link", mcsm_links_counters)
COMMAND("release", "", "GUID/PORT", "use a held link again, and forget its errors",
        mcsm_links_release)
COMMAND("reroute", "", "", "sweep and compute routes now", reroute)
COMMAND("metrics", "", "", "counters in the OpenMetrics format", metrics)
HEADING("As on OpenSM's console:")
COMMAND("querylid", "", "LID", "the port that has the LID", mcsm_console_querylid)
COMMAND("portstatus", "", "[TYPE]", "ports by state, width and speed, of ca, switch or router",
        mcsm_console_portstatus)
COMMAND("switchbalance", "", "[GUID]", "how evenly LIDs leave through the ports to other switches",
        mcsm_console_switchbalance)
COMMAND("resweep", "", "[KIND]", "start a heavy or light sweep (heavy)", mcsm_console_resweep)
COMMAND("loglevel", "", "[LEVEL]", "show or set the level: error, warn, info, debug",
        mcsm_console_loglevel)
COMMAND("dump", "portguid", "REGEX", "port GUIDs of the nodes with such a description",
        mcsm_console_portguids)
