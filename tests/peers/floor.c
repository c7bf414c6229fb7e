/**
 * \file floor.c
 * \brief The least that exchange by capsules can cost: a type in plain C that checks nothing.
 *
 * `floor.Array()` exports 64 x 64 floats by `__dlpack__(max_version=)`, and `floor.take(x)` imports
 * from `x.__dlpack__(max_version=(1, 3))` into a new `floor.Taken`.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <stdlib.h>

#include "dlpack.h"

static float memory[64 * 64] __attribute__((aligned(64)));
static int64_t shape[2] = {64, 64}, strides[2] = {64, 1};
static PyObject *name, *keyword, *version;

typedef struct {
    PyObject_HEAD
} Array;

typedef struct {
    PyObject_HEAD
    DLManagedTensorVersioned *managed;
} Taken;

static void deleter(DLManagedTensorVersioned *managed) {
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)managed->manager_ctx);
    PyGILState_Release(state);
    free(managed);
}

static void destroy(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        managed->deleter(managed);
    }
}

static PyObject *array_dlpack(PyObject *self, PyObject *const *args, Py_ssize_t nargs, PyObject *names) {
    (void)args;
    (void)nargs;
    (void)names;
    DLManagedTensorVersioned *managed = malloc(sizeof *managed);
    if (!managed) {
        return PyErr_NoMemory();
    }
    managed->version.major = 1;
    managed->version.minor = 3;
    managed->manager_ctx = Py_NewRef(self);
    managed->deleter = deleter;
    managed->flags = 0;
    managed->dl_tensor.data = memory;
    managed->dl_tensor.device.device_type = kDLCPU;
    managed->dl_tensor.device.device_id = 0;
    managed->dl_tensor.ndim = 2;
    managed->dl_tensor.dtype.code = kDLFloat;
    managed->dl_tensor.dtype.bits = 32;
    managed->dl_tensor.dtype.lanes = 1;
    managed->dl_tensor.shape = shape;
    managed->dl_tensor.strides = strides;
    managed->dl_tensor.byte_offset = 0;
    return PyCapsule_New(managed, "dltensor_versioned", destroy);
}

static PyObject *array_device(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", 1, 0);
}

static void taken_dealloc(Taken *self) {
    self->managed->deleter(self->managed);
    PyObject_Free(self);
}

static PyMethodDef array_methods[] = {
    {"__dlpack__", (PyCFunction)(void (*)(void))array_dlpack, METH_FASTCALL | METH_KEYWORDS, ""},
    {"__dlpack_device__", array_device, METH_NOARGS, ""},
    {NULL, NULL, 0, NULL}};

static PyTypeObject ArrayType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "floor.Array",
    .tp_basicsize = sizeof(Array),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_new = PyType_GenericNew,
    .tp_methods = array_methods};

static PyTypeObject TakenType = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "floor.Taken",
    .tp_basicsize = sizeof(Taken),
    .tp_flags = Py_TPFLAGS_DEFAULT,
    .tp_dealloc = (destructor)taken_dealloc};

static PyObject *take(PyObject *module, PyObject *x) {
    (void)module;
    PyObject *args[2] = {x, version};
    PyObject *capsule = PyObject_VectorcallMethod(name, args, 1, keyword);
    if (!capsule) {
        return NULL;
    }
    DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
    if (!managed || PyCapsule_SetName(capsule, "used_dltensor_versioned")) {
        Py_DECREF(capsule);
        return NULL;
    }
    Py_DECREF(capsule);
    Taken *taken = PyObject_New(Taken, &TakenType);
    if (!taken) {
        managed->deleter(managed);
        return NULL;
    }
    taken->managed = managed;
    return (PyObject *)taken;
}

static PyMethodDef functions[] = {{"take", take, METH_O, ""}, {NULL, NULL, 0, NULL}};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "floor", NULL, -1, functions, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_floor(void) {
    name = PyUnicode_InternFromString("__dlpack__");
    keyword = Py_BuildValue("(N)", PyUnicode_InternFromString("max_version"));
    version = Py_BuildValue("(ii)", 1, 3);
    if (!name || !keyword || !version || PyType_Ready(&ArrayType) || PyType_Ready(&TakenType)) {
        return NULL;
    }
    PyObject *made = PyModule_Create(&module);
    if (made && PyModule_AddObjectRef(made, "Array", (PyObject *)&ArrayType)) {
        Py_CLEAR(made);
    }
    return made;
}
