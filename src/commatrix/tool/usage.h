/*
 * Exit statuses, and the end of a program that was called wrongly.
 */
#ifndef CM_USAGE_H
#define CM_USAGE_H

enum { CM_EXIT_OK, CM_EXIT_DIFFERENT, CM_EXIT_USAGE, CM_EXIT_DAMAGED, CM_EXIT_ERROR };

/** Ends the program with CM_EXIT_USAGE and a message. */
void cm_usage_error(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));

#endif
