/**
 * \file errors.h
 * \brief Error objects as small as they can be: their texts are constants, so they own nothing but
 * themselves.
 */
#include <crossdock/plugin.h>

#include <stdlib.h>
#include <string.h>

static xd_text text_of(const char *text) {
    xd_text out = {(const uint8_t *)text, strlen(text)};
    return out;
}

/** Reports a failure in two constants, and answers its status. */
static xd_status fail(xd_status status, const char *operation, const char *message,
                      xd_plugin_error **error) {
    xd_plugin_error *made = error ? calloc(1, sizeof *made) : NULL;
    if (made) {
        made->status = status;
        made->operation = text_of(operation);
        made->native_name = text_of("");
        made->message = text_of(message);
    }
    if (error) {
        *error = made;
    }
    return status;
}

static void error_free(xd_plugin_error *error) { free(error); }
