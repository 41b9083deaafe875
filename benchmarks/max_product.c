/* Max-product on a dense two-layer noisy-OR network, one thread: what the package's engine is
 * measured against.
 *
 * Excess form: the message of child i to parent k is kept as excess = v + theta >= 0. With B the
 * belief of the parent and a = log(exp(theta) - 1), a child that is on has
 *
 *     t_k      = a_k + min(B_k - excess_k, 0)
 *     excess_k = max(0, a_k + max(0, -(largest t of the others, leak included)))
 *
 * Rows of the matrices are padded to whole groups of LANES with a = NEVER and weight = 0, which
 * never carry a message. The largest and second largest t are kept per lane, so that the inner
 * loops have a fixed length and no branch. */

#include <math.h>
#include <stddef.h>
#include <string.h>

#ifndef LANES
#define LANES 16 /* 8 suits few parents, 16 many */
#endif
#define NEVER -1e30f

static float largest(float a, float b) { return a > b ? a : b; }
static float smallest(float a, float b) { return a < b ? a : b; }

/* One iteration of one child; returns the largest change asked for. */
static float update_child(const float *restrict belief, float *restrict incoming,
                          float *restrict excess, const float *restrict log_odds,
                          float *restrict down, size_t width, float leak, float step) {
    float best[LANES], second[LANES];
    for (size_t lane = 0; lane < LANES; lane++) best[lane] = second[lane] = NEVER;
    for (size_t k = 0; k < width; k += LANES) {
        for (size_t lane = 0; lane < LANES; lane++) {
            float t = log_odds[k + lane] + smallest(belief[k + lane] - excess[k + lane], 0.0f);
            down[k + lane] = t;
            second[lane] = largest(second[lane], smallest(best[lane], t));
            best[lane] = largest(best[lane], t);
        }
    }
    for (size_t half = LANES / 2; half > 0; half /= 2) {
        for (size_t lane = 0; lane < half; lane++) {
            float loser = smallest(best[lane], best[lane + half]);
            best[lane] = largest(best[lane], best[lane + half]);
            second[lane] = largest(largest(second[lane], second[lane + half]), loser);
        }
    }
    float top = largest(best[0], leak);
    float runner_up = leak > best[0] ? best[0] : largest(second[0], leak);
    float need = largest(0.0f, -top), need_of_peak = largest(0.0f, -runner_up);

    float change = 0.0f;
    for (size_t k = 0; k < width; k++) {
        float missing = down[k] == top ? need_of_peak : need;
        float difference = largest(0.0f, log_odds[k] + missing) - excess[k];
        float updated = excess[k] + step * difference;
        change = largest(change, fabsf(difference));
        excess[k] = updated;
        incoming[k] += updated;
    }
    return change;
}

/* log_odds, weight: (n_visible, width). columns[ptr[r]:ptr[r + 1]] are the ones of row r. unary
 * (width): total of the messages of children that are off, and the prior log-odds. excess: room
 * for the ones of the longest row, (ones, width). incoming, down: (width). Results: belief
 * (n_rows, width), iterations and residual (n_rows). */
void infer(size_t n_rows, size_t width, const long long *ptr, const int *columns,
           const float *log_odds, const float *weight, const float *leak, const float *unary,
           int max_iterations, float step, float tolerance, float *excess, float *incoming,
           float *down, float *belief, int *iterations, float *residual) {
    for (size_t row = 0; row < n_rows; row++) {
        const int *ones = columns + ptr[row];
        size_t n_ones = (size_t)(ptr[row + 1] - ptr[row]);
        float *restrict b = belief + row * width;
        memset(incoming, 0, width * sizeof(float));
        for (size_t j = 0; j < n_ones; j++) {
            const float *restrict start = weight + (size_t)ones[j] * width;
            memcpy(excess + j * width, start, width * sizeof(float));
            for (size_t k = 0; k < width; k++) incoming[k] += start[k];
        }
        for (size_t k = 0; k < width; k++) b[k] = unary[k] + incoming[k];

        float change = 0.0f;
        int iteration = 0;
        while (iteration < max_iterations) {
            change = 0.0f;
            memset(incoming, 0, width * sizeof(float));
            for (size_t j = 0; j < n_ones; j++) {
                size_t child = (size_t)ones[j];
                change = largest(change, update_child(b, incoming, excess + j * width,
                                                      log_odds + child * width, down, width,
                                                      leak[child], step));
            }
            for (size_t k = 0; k < width; k++) b[k] = unary[k] + incoming[k];
            iteration++;
            if (change < tolerance) break;
        }
        iterations[row] = iteration;
        residual[row] = change;
    }
}
