#include "rate.h"

#include "mad/layout.h"

/* By code. The rates have the nominal values: 14 for a lane of FDR, 25 for EDR, 50 for HDR. */
static const unsigned speeds[] = {
    [2] = 2500,    [3] = 10000,   [4] = 30000,   [5] = 5000,    [6] = 20000,   [7] = 40000,
    [8] = 60000,   [9] = 80000,   [10] = 120000, [11] = 14000,  [12] = 56000,  [13] = 112000,
    [14] = 168000, [15] = 25000,  [16] = 100000, [17] = 200000, [18] = 300000, [19] = 28000,
    [20] = 50000,  [21] = 400000, [22] = 600000, [23] = 800000, [24] = 1200000};

enum { CODES = sizeof(speeds) / sizeof(*speeds) };

unsigned mcsm_rate_speed(uint8_t code)
{
    return code < CODES ? speeds[code] : 0;
}

uint8_t mcsm_rate_code(unsigned speed)
{
    uint8_t best = 2;

    for (uint8_t code = 2; code < CODES; code++) {
        if (speeds[code] <= speed && speeds[code] > speeds[best]) {
            best = code;
        }
    }
    return best;
}

uint8_t mcsm_rate_below(uint8_t code)
{
    unsigned speed = mcsm_rate_speed(code);

    return speed > speeds[2] ? mcsm_rate_code(speed - 1) : 0;
}

unsigned mcsm_link_speed(uint8_t width, uint8_t speed, uint8_t extended)
{
    static const struct {
        uint8_t bit;
        unsigned value;
    } lanes[] = {{1, 1}, {2, 4}, {4, 8}, {8, 12}, {16, 2}},
      speeds_of[] = {{1, 2500}, {2, 5000}, {4, 10000}},
      extended_of[] = {{1, 14000}, {2, 25000}, {4, 50000}, {8, 100000}};
    unsigned count = 1, lane = 2500;

    for (int i = 0; i < 5; i++) {
        if (width & lanes[i].bit) {
            count = lanes[i].value;
        }
    }
    for (int i = 0; i < 3; i++) {
        if (speed & speeds_of[i].bit) {
            lane = speeds_of[i].value;
        }
    }
    for (int i = 0; i < 4; i++) {
        if (extended & extended_of[i].bit) {
            lane = extended_of[i].value;
        }
    }
    return count * lane;
}

uint8_t mcsm_port_rate(const struct mcsm_port *port)
{
    return mcsm_rate_code(mcsm_link_speed(port->info[MCSM_PI_WIDTH_ACTIVE],
                                          mcsm_hi(port->info, MCSM_PI_SPEED_ACTIVE_HI),
                                          mcsm_hi(port->info, MCSM_PI_SPEED_EXT_ACTIVE_HI)));
}
