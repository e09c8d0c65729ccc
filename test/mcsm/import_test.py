#!/usr/bin/env python3
"""mcsm-import: a realistic directory of OpenSM, OpenSM's own defaults, wrong lines, broken files."""
import contextlib
import importlib.machinery
import importlib.util
import io
import os
import random
import shutil
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

HERE = os.path.dirname(os.path.abspath(__file__))
IMPORT = os.path.join(HERE, "../../src/mcsm/mcsm-import")
MCSM = os.path.join(os.environ["OPENGLEX_BUILD"], "src/mcsm/mcsm")
DIRECTORY = os.path.join(HERE, "opensm")
ROUNDS = int(os.environ.get("MCSM_IMPORT_ROUNDS", 60))


def load():
    """The program as a module, because a new process for each broken file is slow."""
    sys.dont_write_bytecode = True
    loader = importlib.machinery.SourceFileLoader("program", IMPORT)
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("program", loader))
    loader.exec_module(module)
    return module


class ImportTest(unittest.TestCase):
    def setUp(self):
        self.work = tempfile.mkdtemp()
        self.addCleanup(shutil.rmtree, self.work)
        self.output = os.path.join(self.work, "mcsm.conf")

    def run_import(self, directory, *options):
        done = subprocess.run([IMPORT, "-o", self.output, *options, directory], text=True,
                              capture_output=True, check=False, errors="replace")
        self.assertNotIn("Traceback", done.stderr)
        return done.returncode, done.stderr

    def run_inside(self, module, directory):
        said = io.StringIO()
        with mock.patch.object(sys, "argv", [IMPORT, "-o", self.output, directory]), \
                contextlib.redirect_stderr(said):
            return module.main(), said.getvalue()

    def settings(self):
        """Section and line of all settings that were written."""
        section, found = "", []
        with open(self.output, encoding="utf-8") as file:
            for line in file.read().splitlines():
                if line.startswith("["):
                    section = line
                elif line and not line.startswith("#"):
                    found.append(f"{section} {line}")
        return found

    def check_config(self):
        done = subprocess.run([MCSM, "--check-config", self.output], text=True,
                              capture_output=True, check=False)
        self.assertEqual("", done.stderr)
        self.assertEqual(0, done.returncode)

    def test_realistic_directory(self):
        status, remarks = self.run_import(DIRECTORY, "--name", "main")
        self.assertEqual(0, status, remarks)
        self.check_config()
        self.assertEqual(0o600, os.stat(self.output).st_mode & 0o777)
        with open(os.path.join(DIRECTORY, "expected"), encoding="utf-8") as file:
            expected = file.read().splitlines()
        found = self.settings() + [line[len(DIRECTORY) + 1:] for line in remarks.splitlines()]
        self.assertEqual(expected, found)

    def test_lids_stay(self):
        lids = os.path.join(self.work, "main.lids")
        self.assertEqual(0, self.run_import(DIRECTORY, "--lids", lids)[0])
        with open(lids, encoding="utf-8") as file:
            self.assertEqual("0x0002c903000a1b2d 2\n0x0002c903000a1b31 4\n0x0002c90200410a28 6\n",
                             file.read())
        with open(self.output, "r+", encoding="utf-8") as file:
            text = file.read().replace("[cluster]\n", f"[cluster]\nlid-database = {lids}\n")
            file.seek(0)
            file.write(text)
        self.check_config()

    @unittest.skipUnless(shutil.which("opensm", path=os.environ["PATH"] + ":/usr/sbin"),
                         "opensm is not installed")
    def test_defaults_of_opensm(self):
        path = os.environ["PATH"] + ":/usr/sbin"
        subprocess.run(["opensm", "-c", os.path.join(self.work, "opensm.conf")], check=False,
                       stdout=subprocess.DEVNULL, env={**os.environ, "PATH": path})
        self.assertEqual((0, ""), self.run_import(self.work))
        self.assertEqual(["[cluster] name = cluster"], self.settings())
        self.check_config()

    def test_wrong_lines(self):
        cases = [
            ("opensm.conf", "lmc 8", ":1: error: lmc 8"),
            ("opensm.conf", "# x\n\nlmc", ':3: error: "lmc"'),
            ("opensm.conf", "sm_priority high", ":1: error: sm_priority high"),
            ("opensm.conf", "routing_engine best", ":1: error: routing_engine best"),
            ("opensm.conf", "part_enforce all", ":1: error: part_enforce all"),
            ("opensm.conf", "qos TRUE\nqos_sl2vl 0,1", ":2: error: qos_sl2vl 0,1"),
            ("opensm.conf", "qos TRUE\nqos_vlarb_low 1:2:3", ":2: error: qos_vlarb_low"),
            ("opensm.conf", "root_guid_file /none/roots", ":1: error: /none/roots is no file"),
            ("partitions.conf", "Default=0x7fff : ALL=full", ":1: error: the definition has no"),
            ("partitions.conf", "Default=0x7fff ALL=full;", ":1: error: expected"),
            ("partitions.conf", "a=0x8000 : ALL;", ":1: error: a=0x8000: expected"),
            ("partitions.conf", "a=1, ipob : ALL;", ':1: error: "ipob" is no flag'),
            ("partitions.conf", "a=1, mtu=6 : ALL;", ":1: error: mtu=6: expected 1 to 5"),
            ("partitions.conf", "a=1 :\n 0x1,\n host7;", ':3: error: "host7": expected'),
            ("guid2lid", "0x1 0x1 0x1\n0x2 0xc000 0xc000", ':2: error: "0x2 0xc000'),
            ("guid2lid", "0x1 0x1 0x1\n0x1 0x2 0x2", ":2: error: GUID 0x0000000000000001"),
            ("root_guid_file", "spine", ':1: error: "spine": expected the GUID'),
            ("prefix-routes.conf", "0x1", ':1: error: "0x1": expected'),
            ("qos-policy.conf", "qos-ulps\n  default : 0", ": error: the file ends inside"),
            ("qos-policy.conf", "end-qos-ulps", ":1: error:"),
            ("qos-policy.conf", "qos-ulps\n default : 16\nend-qos-ulps", ":2: error: 16: expected"),
            ("qos-policy.conf", "qos-ulps\n any, lid 7 : 1\nend-qos-ulps", ":2: error:"),
            ("qos-policy.conf", "port-group\n name: a\n port-guid: 9-1\nend-port-group",
             ":3: error: port-guid: 9-1"),
            ("qos-policy.conf", "qos-match-rule\n qos-level-name: a\nend-qos-match-rule",
             ":1: error: qos-match-rule: there is no qos-level a"),
            ("qos-policy.conf", "qos-level\n name: a\n sl: 1\nend-qos-level\n"
             "qos-match-rule\n source: b\n qos-level-name: a\nend-qos-match-rule",
             ":5: error: source: there is no port-group b"),
        ]
        module = load()
        for name, text, error in cases:
            with self.subTest(name=name, text=text):
                directory = os.path.join(self.work, "wrong")
                shutil.rmtree(directory, ignore_errors=True)
                os.mkdir(directory)
                with open(os.path.join(directory, name), "w", encoding="utf-8") as file:
                    file.write(text + "\n")
                status, said = self.run_inside(module, directory)
                self.assertEqual(1, status)
                self.assertIn(os.path.join(directory, name) + error, said)
                self.assertFalse(os.path.exists(self.output))

    def test_engines_that_choose_the_lanes(self):
        with open(os.path.join(self.work, "opensm.conf"), "w", encoding="utf-8") as file:
            file.write("routing_engine lash\nqos TRUE\n"
                       "qos_sl2vl 0,1,2,3,4,5,6,7,0,1,2,3,4,5,6,7\n")
        with open(os.path.join(self.work, "partitions.conf"), "w", encoding="utf-8") as file:
            file.write("a=1, ipoib, sl=3 : ALL;\n")
        status, remarks = self.run_import(self.work)
        self.assertEqual(0, status)
        self.assertIn("opensm.conf:3: no counterpart in mcsm: qos_sl2vl", remarks)
        self.assertIn("partitions.conf:1: no counterpart in mcsm: sl", remarks)
        self.check_config()

    def test_only_files_of_the_directory_are_read(self):
        """Not a file of the current directory, if DIR has none of that name."""
        empty = os.path.join(self.work, "empty")
        os.mkdir(empty)
        with open(os.path.join(self.work, "partitions.conf"), "w", encoding="utf-8") as file:
            file.write("elsewhere=5 : ALL;\n")
        before = os.getcwd()
        os.chdir(self.work)
        try:
            self.assertEqual(0, self.run_inside(load(), empty)[0])
        finally:
            os.chdir(before)
        with open(self.output, encoding="utf-8") as file:
            self.assertNotIn("elsewhere", file.read())

    def test_output_is_private_also_over_an_existing_file(self):
        with open(self.output, "w", encoding="utf-8"):
            os.chmod(self.output, 0o644)
        self.assertEqual(0, self.run_import(DIRECTORY)[0])
        self.assertEqual(0o600, os.stat(self.output).st_mode & 0o777)

    def import_policy(self, options, policy):
        """The rules of a directory with these files, and the remarks."""
        for name, text in (("opensm.conf", options), ("qos-policy.conf", policy)):
            with open(os.path.join(self.work, name), "w", encoding="utf-8") as file:
                file.write(text)
        status, remarks = self.run_import(self.work)
        self.assertEqual(0, status, remarks)
        self.check_config()
        return [line for line in self.settings() if "[rule " in line or "[group " in line], remarks

    def test_rules_that_cannot_count(self):
        policy = "qos-ulps\n any, pkey 0x10 : 3\n any, pkey 0x11 : 4\nend-qos-ulps\n"
        rules, remarks = self.import_policy("qos FALSE\n", policy)
        self.assertEqual([], rules)
        self.assertIn("qos-policy.conf:2: the rules are left out", remarks)
        rules, remarks = self.import_policy("qos TRUE\nrouting_engine lash\n", policy)
        self.assertEqual([], rules)
        self.assertEqual(2, remarks.count("the engine chooses the service levels"))
        rules, remarks = self.import_policy(
            "qos TRUE\nqos_sl2vl 0,1,2,15,4,5,6,7,0,1,2,3,4,5,6,7\n", policy)
        self.assertEqual(["[rule rule-1] pkey = 0x11", "[rule rule-1] sl = 4"], rules)
        self.assertIn("qos-policy.conf:2: no counterpart in mcsm: a rule with service level 3",
                      remarks)

    def test_rules_keep_their_order(self):
        rules, remarks = self.import_policy("qos TRUE\n", """
qos-ulps
  default : 4
  ipoib : 2
end-qos-ulps
port-group
  name: none
end-port-group
port-group
  name: a[b]/P2
  port-name: x*"[1]/P2
end-port-group
qos-level
  name: l
  sl: 1
end-qos-level
qos-match-rule
  source: none
  qos-level-name: l
end-qos-match-rule
qos-match-rule
  source: none, a[b]/P2
  qos-level-name: l
end-qos-match-rule
""")
        self.assertEqual(["[group a-b--P2] node = x\\*?\\[1]/P2", "[rule rule-1] source = a-b--P2",
                          "[rule rule-1] sl = 1", "[rule rule-2] pkey = 0x7fff",
                          "[rule rule-2] sl = 2", "[rule rule-3] sl = 4"], rules)
        self.assertIn(":17: no counterpart in mcsm: a rule whose source groups have no ports",
                      remarks)

    def test_files_that_cannot_be_read(self):
        self.assertEqual(3, self.run_import(os.path.join(self.work, "nothing"))[0])
        self.assertEqual(3, self.run_import(DIRECTORY, "--guid2lid", "/none/guid2lid")[0])
        self.assertEqual(3, self.run_import(DIRECTORY, "--output", "/none/mcsm.conf")[0])
        self.assertEqual(2, self.run_import(DIRECTORY, "--name", "a b")[0])

    def test_truncated_and_random_files(self):
        """Each result is an error with its line, or a configuration that mcsm accepts."""
        source = random.Random(int(os.environ.get("MCSM_SEED", 1)))
        names = sorted(name for name in os.listdir(DIRECTORY) if name != "expected")
        directory = os.path.join(self.work, "broken")
        module = load()
        for _ in range(ROUNDS):
            shutil.rmtree(directory, ignore_errors=True)
            shutil.copytree(DIRECTORY, directory)
            name = source.choice(names)
            with open(os.path.join(directory, name), "r+b") as file:
                text = bytearray(file.read())
                if source.random() < 0.3:
                    text = text[:source.randrange(len(text))]
                elif source.random() < 0.2:
                    text = bytearray(source.randrange(256) for _ in range(500))
                else:
                    for _ in range(source.randrange(1, 6)):
                        text[source.randrange(len(text))] = source.randrange(256)
                file.seek(0)
                file.truncate()
                file.write(text)
            if os.path.exists(self.output):
                os.remove(self.output)
            status, said = self.run_inside(module, directory)
            if status == 0:
                self.check_config()
            else:
                self.assertEqual(1, status, said)
                self.assertRegex(said, r"broken/[a-z0-9.-]+:(\d+:)? error: ")


if __name__ == "__main__":
    unittest.main()
