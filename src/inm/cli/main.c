/* inm: the command line of network management. */
#include "cli.h"
#include "openglex.h"

#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "Usage: inm [OPTION]... COMMAND\n"
    "Manage a network through its server inmd.\n\n"
    "  discover [window=N]                  find all chips and links anew\n"
    "  show [CHIP]                          the network; a chip\n"
    "  differences                          links that are missing, or not in the topology\n"
    "  ports CHIP                           its ports, their state and counters\n"
    "  reg read CHIP ADDR                   a register\n"
    "  reg write CHIP ADDR VALUE\n"
    "  eeprom read CHIP ADDR [NUMBER]       bytes of its EEPROM\n"
    "  eeprom write CHIP ADDR HEXBYTES\n"
    "  trace HOST HOST                      the path through the routing tables\n"
    "  bist PORT|CHIP|SWITCH|CABINET|all [us=N]  test links\n"
    "  route generate [shortest|balanced|updown]\n"
    "  route load|verify|keep [CHIP]        tables into chips; read back; into EEPROM\n"
    "  load                                 load of links by level and job, the top ten\n"
    "  job set NAME HOSTS | job delete NAME  hosts whose load is shown together\n"
    "  inventory [all|read|csv|netbox]      serial numbers and firmware\n"
    "  plan drain PLACE|cut PORT|add PORT PORT [picture=FILE]  effects of a maintenance\n"
    "  apply PLAN                           do a plan; refused if the network has changed\n"
    "  undo                                 undo the plan that was applied last\n"
    "  plans                                the applied plans\n"
    "  alarms [all|ack ID [COMMENT]]        active alarms; all; acknowledge one\n"
    "  silence [PLACE MINUTES [COMMENT]|end ID]  hold back the alerts of a place\n"
    "  log [severity=S] [place=P] [user=U] [kind=K] [from=T] [to=T] [limit=N] [csv]\n"
    "                                       alarms, starts, discoveries, changes by users\n"
    "  watch [ROUNDS]                       events as they come\n"
    "  poll [mode=single|loop|compare] [interval_ms=N]\n"
    "  config [hot_limit=N] [retry_limit=N] check, or push to all chips and read back\n"
    "  scan [window=N] [per_chip=N]         the full scan of the paper\n\n"
    "Chips are named by their place: r12f3n5 (rack, frame, NRC), r12f3h31 (host), l5s2b13 (leaf\n"
    "switch), t3b17n4 (root switch, NRC), or nrc7, nic9. Ports: r12f3n5:23.\n\n"
    "  -j, --json           one line of JSON instead of tables\n"
    "  -s, --server URL     unix:/path, http://host:port, https://host:port\n"
    "                       (default $INM_SERVER, else unix:/run/inmd/inmd.sock)\n"
    "  -h, --help           show this text\n"
    "  -V, --version        show the version\n\n"
    "Exit status: 0 success; 1 refused; 2 wrong use; 3 no server; 4 (alarms) there are alarms.\n";

int main(int argc, char **argv)
{
    static const struct option table[] = {{"json", no_argument, NULL, 'j'},
                                          {"server", required_argument, NULL, 's'},
                                          {"help", no_argument, NULL, 'h'},
                                          {"version", no_argument, NULL, 'V'},
                                          {NULL, 0, NULL, 0}};
    const char *env = getenv("INM_SERVER");
    struct cli cli = {.server = env != NULL && env[0] != '\0' ? env : "unix:/run/inmd/inmd.sock"};
    int c, status;

    while ((c = getopt_long(argc, argv, "+js:hV", table, NULL)) != -1) {
        switch (c) {
        case 'j':
            cli.json = true;
            break;
        case 's':
            cli.server = optarg;
            break;
        case 'h':
            fputs(usage, stdout);
            return CLI_OK;
        case 'V':
            puts("inm " PACKAGE_VERSION);
            return CLI_OK;
        default:
            fprintf(stderr, "Try inm --help.\n");
            return CLI_USAGE;
        }
    }
    /* Also behind the command. */
    if (argc > optind &&
        (argv[argc - 1][0] == '-' && argv[argc - 1][1] == '-' && argv[argc - 1][2] == 'j')) {
        cli.json = true;
        argc--;
    }
    if (optind == argc) {
        fprintf(stderr, "inm: which command? Try inm --help.\n");
        return CLI_USAGE;
    }
    status = client_open(&cli);
    if (status == CLI_OK) {
        status = cli_command(&cli, argc - optind, argv + optind);
    }
    client_close();
    return status;
}
