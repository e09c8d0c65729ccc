"""PETSc: Poisson's equation on a square of 80 x 80 points. Prints, for each solver, the number of
iterations, the residual and the solution in some points. For contrib/applications."""
import sys

import petsc4py

petsc4py.init(sys.argv)
from petsc4py import PETSc

POINTS = 80

grid = PETSc.DMDA().create([POINTS, POINTS], stencil_width=1)
matrix = grid.createMatrix()
row, column = PETSc.Mat.Stencil(), PETSc.Mat.Stencil()
(x0, x1), (y0, y1) = grid.getRanges()
for y in range(y0, y1):
    for x in range(x0, x1):
        row.index = (x, y)
        for (i, j), value in (((x, y), 4), ((x - 1, y), -1), ((x + 1, y), -1), ((x, y - 1), -1),
                              ((x, y + 1), -1)):
            if 0 <= i < POINTS and 0 <= j < POINTS:
                column.index = (i, j)
                matrix.setValueStencil(row, column, value)
matrix.assemble()

right = grid.createGlobalVec()
values = grid.getVecArray(right)
for y in range(y0, y1):
    for x in range(x0, x1):
        values[x, y] = (x * 7 + y * 3) % 11 - 5

for name, preconditioner in (("cg", "bjacobi"), ("gmres", "jacobi"), ("bcgs", "asm")):
    solver = PETSc.KSP().create()
    solver.setOperators(matrix)
    solver.setType(name)
    solver.getPC().setType(preconditioner)
    solver.setTolerances(rtol=1e-8, max_it=2000)
    solution = grid.createGlobalVec()
    solver.solve(right, solution)
    residual = right.duplicate()
    matrix.mult(solution, residual)
    residual.axpy(-1, right)
    PETSc.Sys.Print("result %s %s: reason %d, %d iterations, residual %s, norm %.8e, sum %.8e" % (
        name, preconditioner, solver.getConvergedReason(), solver.getIterationNumber(),
        "small" if residual.norm() < 1e-6 * right.norm() else "%e" % residual.norm(),
        solution.norm(), solution.sum()))
