/**
 * \file plugin_support.h
 * \brief What most plugins in C write by hand: error objects, texts, log lines and places of memory.
 *
 * Optional: nothing in the contract needs this file, and `plugin.h` does not include it. All functions
 * are `static inline`, so a plugin links to nothing and exports nothing more; C99 and C++11.
 *
 * Any thread may call each of them at any time. None takes a lock, waits, or keeps a pointer that it is given,
 * unless it says so.
 */
#ifndef CROSSDOCK_PLUGIN_SUPPORT_H
#define CROSSDOCK_PLUGIN_SUPPORT_H

#include "plugin.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Makes a text of a C string, without a copy.
 *
 * \param[in] text  UTF-8 that ends with a NUL, and outlives the result; NULL is the empty text.
 * \return The text, up to the NUL.
 */
static inline xd_text xd_plugin_text(const char *text) {
    xd_text borrowed = {(const uint8_t *)text, text ? strlen(text) : 0};
    return borrowed;
}

/** Makes the error object of a hook that failed. A hook ends with `return xd_plugin_fail(..)`.
 *
 * \param[in]  status     What the hook answers.
 * \param[in]  operation  The call that failed: the vendor's function, or the hook's own name.
 * \param[in]  message    One sentence: why. Both texts are borrowed until `error_free`, as literals are.
 * \param[out] error      The hook's argument, which may be NULL. The host owns the object, and gives it back
 *                        to \ref xd_plugin_error_free; NULL is put there where memory is exhausted.
 * \return `status`.
 */
static inline xd_status xd_plugin_fail(xd_status status, const char *operation, const char *message,
                                       xd_plugin_error **error) {
    if (error) {
        xd_plugin_error *made = (xd_plugin_error *)calloc(1, sizeof *made);
        if (made) {
            made->status = status;
            made->operation = xd_plugin_text(operation);
            made->message = xd_plugin_text(message);
        }
        *error = made;
    }
    return status;
}

/** Makes the error object of a hook whose vendor's call failed, with a message as of `printf`.
 *
 * \param[in]  status       What the hook answers.
 * \param[in]  operation    The vendor's function.
 * \param[in]  native_code  The vendor's number.
 * \param[in]  native_name  The vendor's name of that number, or NULL.
 * \param[out] error        As of \ref xd_plugin_fail. The object has copies of all texts.
 * \param[in]  format       The message, and behind it the values of its conversions.
 * \return `status`.
 */
static inline xd_status xd_plugin_fail_native(xd_status status, const char *operation,
                                              int64_t native_code, const char *native_name,
                                              xd_plugin_error **error, const char *format, ...)
    __attribute__((format(printf, 6, 7)));
static inline xd_status xd_plugin_fail_native(xd_status status, const char *operation,
                                              int64_t native_code, const char *native_name,
                                              xd_plugin_error **error, const char *format, ...) {
    va_list arguments, again;
    if (!error) {
        return status;
    }
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    va_end(arguments);
    const char *name = native_name ? native_name : "";
    size_t message_bytes = length < 0 ? 1 : (size_t)length + 1;
    size_t operation_bytes = strlen(operation) + 1, name_bytes = strlen(name) + 1;
    /* The texts lie behind the object, so that one `free` gives back all of it. */
    xd_plugin_error *made = (xd_plugin_error *)calloc(
        1, sizeof *made + message_bytes + operation_bytes + name_bytes);
    if (made) {
        char *text = (char *)(made + 1);
        vsnprintf(text, message_bytes, format, again);
        made->message = xd_plugin_text(text);
        text += message_bytes;
        memcpy(text, operation, operation_bytes);
        made->operation = xd_plugin_text(text);
        text += operation_bytes;
        memcpy(text, name, name_bytes);
        made->native_name = xd_plugin_text(text);
        made->native_code = native_code;
        made->status = status;
    }
    va_end(again);
    *error = made;
    return status;
}

/** Frees an error object that a function of this file made: the hook `error_free` of a plugin that makes no
 * others.
 *
 * \param[in] error  Taken; NULL does nothing.
 */
static inline void xd_plugin_error_free(xd_plugin_error *error) { free(error); }

/** Fills a text of a struct, as `name` of `xd_device_info`.
 *
 * \param[out] field  `room` bytes of the caller's, all of which are written: the text, and zeros behind it.
 * \param[in]  room   Bytes of `field`. A text that is longer, with its NUL, is cut between two characters.
 * \param[in]  text   UTF-8 that ends with a NUL; not NULL.
 */
static inline void xd_plugin_copy_text(uint8_t *field, size_t room, const char *text) {
    size_t length = strlen(text);
    if (room == 0) {
        return;
    }
    if (length >= room) {
        length = room - 1;
        /* A byte 10xxxxxx goes on with the character of the byte before it. */
        while (length > 0 && ((unsigned char)text[length] & 0xC0u) == 0x80u) {
            length--;
        }
    }
    memset(field, 0, room);
    memcpy(field, text, length);
}

/** Writes a log line, if the host wants lines of its level now.
 *
 * May wait for the host's log: hold no lock that a hook takes.
 *
 * \param[in] host     What `open` was given.
 * \param[in] level    1 error, 2 warning, 3 info, 4 debug, 5 trace.
 * \param[in] target   Who says it: the plugin's name.
 * \param[in] message  One line, UTF-8.
 */
static inline void xd_plugin_log(const xd_host_services *host, uint32_t level, const char *target,
                                 const char *message) {
    if (level <= __atomic_load_n(&host->log_level, __ATOMIC_RELAXED)) {
        host->log(host->context, level, xd_plugin_text(target), xd_plugin_text(message));
    }
}

/** Adds word and offset of an address of the form `XD_ADDRESS_POINTER`.
 *
 * \param[in] address  Not NULL.
 * \return Where it is; 0, which is nobody's, for another form and where the sum overflows.
 */
static inline uint64_t xd_plugin_pointer(const xd_address *address) {
    uint64_t sum = address->word + address->offset;
    return address->form == XD_ADDRESS_POINTER && sum >= address->word ? sum : 0;
}

/** Says whether a range lies in an allocation, and does not overflow.
 *
 * \param[in] offset  Bytes before the range.
 * \param[in] bytes   Bytes of the range.
 * \param[in] size    Bytes of the allocation.
 * \return 1 or 0.
 */
static inline int xd_plugin_inside(uint64_t offset, uint64_t bytes, uint64_t size) {
    return offset <= size && bytes <= size - offset;
}

/** Says whether two ranges of the same length have a byte in common.
 *
 * \param[in] one    Where the first begins.
 * \param[in] other  Where the second begins.
 * \param[in] bytes  Bytes of each.
 * \return 1 or 0.
 */
static inline int xd_plugin_overlap(uint64_t one, uint64_t other, uint64_t bytes) {
    return (one < other ? other - one : one - other) < bytes;
}

#ifdef __cplusplus
}
#endif

#endif /* CROSSDOCK_PLUGIN_SUPPORT_H */
