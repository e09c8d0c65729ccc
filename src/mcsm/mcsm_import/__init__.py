"""The readers of OpenSM's files, and the writer of mcsm.conf."""
