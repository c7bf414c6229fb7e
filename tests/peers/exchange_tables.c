/**
 * \file exchange_tables.c
 * \brief Drives the C exchange table that the type of an object publishes, as a consumer in C does.
 *
 * `run(what, x, count)` does `what` that often: "export" (and delete), "export and wrap" (as a new
 * object, which is dropped), "view", "allocate" (and delete) or "stream". A function that the table
 * lacks is a `LookupError`.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <string.h>

#include "dlpack.h"

static const DLPackExchangeAPI *table_of(PyObject *x) {
    PyObject *capsule = PyObject_GetAttrString((PyObject *)Py_TYPE(x), "__dlpack_c_exchange_api__");
    const DLPackExchangeAPI *table = NULL;
    if (capsule) {
        table = PyCapsule_GetPointer(capsule, "dlpack_exchange_api");
        Py_DECREF(capsule);
    }
    return table;
}

static int export_one(const DLPackExchangeAPI *table, PyObject *x) {
    DLManagedTensorVersioned *managed;
    if (table->managed_tensor_from_py_object_no_sync(x, &managed)) {
        return -1;
    }
    managed->deleter(managed);
    return 0;
}

static int wrap_one(const DLPackExchangeAPI *table, PyObject *x) {
    DLManagedTensorVersioned *managed;
    PyObject *made;
    if (table->managed_tensor_from_py_object_no_sync(x, &managed) ||
        table->managed_tensor_to_py_object_no_sync(managed, (void **)&made)) {
        return -1;
    }
    Py_DECREF(made);
    return 0;
}

static int view_one(const DLPackExchangeAPI *table, PyObject *x) {
    DLTensor view;
    return table->dltensor_from_py_object_no_sync(x, &view);
}

static void set_error(void *context, const char *kind, const char *message) {
    (void)context;
    PyErr_Format(PyExc_RuntimeError, "%s: %s", kind, message);
}

static int allocate_one(const DLPackExchangeAPI *table, PyObject *x) {
    (void)x;
    int64_t shape[2] = {64, 64}, strides[2] = {64, 1};
    DLTensor like;
    memset(&like, 0, sizeof like);
    like.device.device_type = kDLCPU;
    like.ndim = 2;
    like.dtype.code = kDLFloat;
    like.dtype.bits = 32;
    like.dtype.lanes = 1;
    like.shape = shape;
    like.strides = strides;
    DLManagedTensorVersioned *managed;
    if (table->managed_tensor_allocator(&like, &managed, NULL, set_error)) {
        return -1;
    }
    managed->deleter(managed);
    return 0;
}

static int stream_one(const DLPackExchangeAPI *table, PyObject *x) {
    (void)x;
    void *stream;
    return table->current_work_stream(kDLCPU, 0, &stream);
}

typedef int (*One)(const DLPackExchangeAPI *table, PyObject *x);

static One find(const DLPackExchangeAPI *table, const char *what) {
    if (!strcmp(what, "export")) {
        return table->managed_tensor_from_py_object_no_sync ? export_one : NULL;
    }
    if (!strcmp(what, "export and wrap")) {
        return table->managed_tensor_to_py_object_no_sync ? wrap_one : NULL;
    }
    if (!strcmp(what, "view")) {
        return table->dltensor_from_py_object_no_sync ? view_one : NULL;
    }
    if (!strcmp(what, "allocate")) {
        return table->managed_tensor_allocator ? allocate_one : NULL;
    }
    if (!strcmp(what, "stream")) {
        return table->current_work_stream ? stream_one : NULL;
    }
    return NULL;
}

static PyObject *run(PyObject *module, PyObject *args) {
    (void)module;
    const char *what;
    PyObject *x;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(args, "sOn", &what, &x, &count)) {
        return NULL;
    }
    const DLPackExchangeAPI *table = table_of(x);
    if (!table) {
        return NULL;
    }
    One one = find(table, what);
    if (!one) {
        return PyErr_Format(PyExc_LookupError, "this table has nothing for %s", what);
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (one(table, x)) {
            return NULL;
        }
    }
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {{"run", run, METH_VARARGS, ""}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, .m_name = "exchange_tables", .m_size = -1, .m_methods = functions};

PyMODINIT_FUNC PyInit_exchange_tables(void) {
    return PyModule_Create(&module);
}
