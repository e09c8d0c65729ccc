/*
 * Discrete Fourier transforms of FFTW over MPI: complex ones in three dimensions, with and without
 * a transposed result, and a real one in two dimensions. Each transform is inverted. Prints some
 * coefficients, and whether the inverse is the input. For contrib/applications.
 */
#include <complex.h>
#include <fftw3-mpi.h>
#include <math.h>
#include <mpi.h>
#include <stdio.h>

enum { NX = 48, NY = 40, NZ = 36 };

static int rank;

/* A number that follows from its place */
static double content(ptrdiff_t index)
{
    return (double)(index * 7919 % 10007) / 10007 - 0.5;
}

static void report(const char *name, double sum, double largest, double error)
{
    double mine[2] = {sum, 0}, most[2] = {largest, error}, total[2], all[2];

    MPI_Reduce(mine, total, 2, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    MPI_Reduce(most, all, 2, MPI_DOUBLE, MPI_MAX, 0, MPI_COMM_WORLD);
    if (rank == 0) {
        printf("result %s: sum of squares %.10e, largest %.10e, inverse: %s\n", name, total[0],
               all[0], all[1] < 1e-12 ? "Pass" : "Fail");
    }
}

static void complex_transform(const char *name, unsigned forward_flags, unsigned backward_flags)
{
    double sum = 0, largest = 0, error = 0;
    ptrdiff_t length, rows, first, transposed_rows, transposed_first, own, i;
    fftw_plan forward, backward;
    fftw_complex *data;

    length = fftw_mpi_local_size_3d_transposed(NX, NY, NZ, MPI_COMM_WORLD, &rows, &first,
                                               &transposed_rows, &transposed_first);
    data = fftw_alloc_complex((size_t)length);
    forward = fftw_mpi_plan_dft_3d(NX, NY, NZ, data, data, MPI_COMM_WORLD, FFTW_FORWARD,
                                   FFTW_ESTIMATE | forward_flags);
    backward = fftw_mpi_plan_dft_3d(NX, NY, NZ, data, data, MPI_COMM_WORLD, FFTW_BACKWARD,
                                    FFTW_ESTIMATE | backward_flags);
    own = rows * NY * NZ;
    for (i = 0; i < own; i++) {
        data[i] = content(first * NY * NZ + i) + I * content(first * NY * NZ + i + 1);
    }
    fftw_execute(forward);
    for (i = 0; i < (forward_flags != 0 ? transposed_rows * NX * NZ : own); i++) {
        sum += creal(data[i]) * creal(data[i]) + cimag(data[i]) * cimag(data[i]);
        largest = fmax(largest, cabs(data[i]));
    }
    fftw_execute(backward);
    for (i = 0; i < own; i++) {
        error = fmax(error, cabs(data[i] / (NX * NY * NZ) - content(first * NY * NZ + i) -
                                 I * content(first * NY * NZ + i + 1)));
    }
    report(name, sum, largest, error);
    fftw_destroy_plan(forward);
    fftw_destroy_plan(backward);
    fftw_free(data);
}

/* The rows of a real transform are padded to 2 * (columns / 2 + 1) numbers. */
static void real_transform(ptrdiff_t num_rows, ptrdiff_t columns)
{
    ptrdiff_t length, rows, first, half = columns / 2 + 1, x, y;
    double sum = 0, largest = 0, error = 0, *data;
    fftw_plan forward, backward;
    fftw_complex *image;

    length = fftw_mpi_local_size_2d(num_rows, half, MPI_COMM_WORLD, &rows, &first);
    data = fftw_alloc_real((size_t)(2 * length));
    image = (fftw_complex *)data;
    forward =
        fftw_mpi_plan_dft_r2c_2d(num_rows, columns, data, image, MPI_COMM_WORLD, FFTW_ESTIMATE);
    backward =
        fftw_mpi_plan_dft_c2r_2d(num_rows, columns, image, data, MPI_COMM_WORLD, FFTW_ESTIMATE);
    for (x = 0; x < rows; x++) {
        for (y = 0; y < columns; y++) {
            data[x * 2 * half + y] = content((first + x) * columns + y);
        }
    }
    fftw_execute(forward);
    for (x = 0; x < rows * half; x++) {
        sum += creal(image[x]) * creal(image[x]) + cimag(image[x]) * cimag(image[x]);
        largest = fmax(largest, cabs(image[x]));
    }
    fftw_execute(backward);
    for (x = 0; x < rows; x++) {
        for (y = 0; y < columns; y++) {
            error = fmax(error, fabs(data[x * 2 * half + y] / (double)(num_rows * columns) -
                                     content((first + x) * columns + y)));
        }
    }
    report("real, two dimensions", sum, largest, error);
    fftw_destroy_plan(forward);
    fftw_destroy_plan(backward);
    fftw_free(data);
}

int main(int argc, char **argv)
{
    MPI_Init(&argc, &argv);
    fftw_mpi_init();
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    complex_transform("complex, three dimensions", 0, 0);
    complex_transform("complex, transposed", FFTW_MPI_TRANSPOSED_OUT, FFTW_MPI_TRANSPOSED_IN);
    real_transform(700, 510);
    fftw_mpi_cleanup();
    MPI_Finalize();
    return 0;
}
