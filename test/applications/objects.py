"""Collectives and messages of Python objects by mpi4py: prints a digest of all received objects for
each rank. For contrib/applications."""
import hashlib
from mpi4py import MPI

world = MPI.COMM_WORLD
rank, size = world.rank, world.size
digest = hashlib.sha256()
for length in (1, 100, 1000, 10000, 300000):
    mine = {"rank": rank, "data": bytes([(rank + i) % 251 for i in range(length)])}
    digest.update(repr(world.allgather(mine)).encode())
    digest.update(repr(world.alltoall([(rank, to, mine) for to in range(size)])).encode())
    digest.update(repr(world.sendrecv(mine, (rank + 1) % size, source=(rank - 1) % size)).encode())
    digest.update(repr(world.bcast(mine, length % size)).encode())
for line in sorted(world.gather("%d %s" % (rank, digest.hexdigest()), 0) or []):
    print("digest", line)
