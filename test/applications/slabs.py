"""Parallel HDF5 by h5py: all ranks write interleaved rows of a chunked data set and a contiguous
one, close the file, and read rows of other ranks. Prints a digest for each rank. For
contrib/applications."""
import hashlib
from mpi4py import MPI
import h5py
import numpy

ROWS, COLUMNS = 240, 500

world = MPI.COMM_WORLD
rank, size = world.rank, world.size


def content(row):
    return (numpy.arange(COLUMNS, dtype="i8") * 7919 + row * 104729) % 1000003


with h5py.File("slabs.h5", "w", driver="mpio", comm=world) as file:
    chunked = file.create_dataset("chunked", (ROWS, COLUMNS), dtype="i8", chunks=(7, 64))
    plain = file.create_dataset("plain", (ROWS, COLUMNS), dtype="i8")
    mine = range(rank, ROWS, size)
    rows = numpy.array([content(row) for row in mine])
    with chunked.collective:
        chunked[rank::size, :] = rows
    with plain.collective:
        plain[rank::size, :] = rows
    file.attrs["ranks"] = size

digest = hashlib.sha256()
with h5py.File("slabs.h5", "r", driver="mpio", comm=world) as file:
    for name in ("chunked", "plain"):
        with file[name].collective:
            found = file[name][(rank + 1) % size::size, :]
        for index, row in enumerate(range((rank + 1) % size, ROWS, size)):
            if not (found[index] == content(row)).all():
                print("result %s: row %d is wrong: Fail" % (name, row))
        digest.update(found.tobytes())
for line in sorted(world.gather("rank %d %s" % (rank, digest.hexdigest()), 0) or []):
    print("result", line)
