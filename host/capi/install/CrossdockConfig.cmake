# Crossdock for CMake: find_package(Crossdock 1 REQUIRED), then one of
#
#   target_link_libraries(program PRIVATE Crossdock::crossdock)         # libcrossdock.so.1
#   target_link_libraries(program PRIVATE Crossdock::crossdock_static)  # libcrossdock.a
#
# The second is there after `scripts/install PREFIX --static`; `COMPONENTS static` asks for it.
# Everything is found from where this file lies, so the folder it came with can be moved as a whole.

get_filename_component(_crossdock_root "${CMAKE_CURRENT_LIST_DIR}/../../.." REALPATH)
# A Python package has the library beside its folders, and under its one name.
set(_crossdock_library "${_crossdock_root}/lib/libcrossdock.so.1")
if(NOT EXISTS "${_crossdock_library}")
    set(_crossdock_library "${_crossdock_root}/libcrossdock.so.1")
endif()
if(NOT EXISTS "${_crossdock_library}")
    set(Crossdock_FOUND FALSE)
    set(Crossdock_NOT_FOUND_MESSAGE
        "libcrossdock.so.1 is neither in ${_crossdock_root}/lib nor in ${_crossdock_root}; install Crossdock again")
    return()
endif()

if(NOT TARGET Crossdock::crossdock)
    add_library(Crossdock::crossdock SHARED IMPORTED)
    set_target_properties(Crossdock::crossdock PROPERTIES
        IMPORTED_LOCATION "${_crossdock_library}"
        IMPORTED_SONAME libcrossdock.so.1
        INTERFACE_INCLUDE_DIRECTORIES "${_crossdock_root}/include")
endif()
include("${CMAKE_CURRENT_LIST_DIR}/CrossdockStaticTarget.cmake" OPTIONAL)

# What crossdock.hpp needs. A project without C++ does not know the feature, and CMake takes no condition for it.
get_property(_crossdock_languages GLOBAL PROPERTY ENABLED_LANGUAGES)
if("CXX" IN_LIST _crossdock_languages)
    foreach(_crossdock_target IN ITEMS Crossdock::crossdock Crossdock::crossdock_static)
        if(TARGET ${_crossdock_target})
            set_property(TARGET ${_crossdock_target} PROPERTY INTERFACE_COMPILE_FEATURES cxx_std_17)
        endif()
    endforeach()
endif()

foreach(_crossdock_component IN LISTS Crossdock_FIND_COMPONENTS)
    if(_crossdock_component STREQUAL "shared"
            OR (_crossdock_component STREQUAL "static" AND TARGET Crossdock::crossdock_static))
        set(Crossdock_${_crossdock_component}_FOUND TRUE)
    elseif(Crossdock_FIND_REQUIRED_${_crossdock_component})
        set(Crossdock_FOUND FALSE)
        set(Crossdock_NOT_FOUND_MESSAGE
            "component ${_crossdock_component} is not in ${_crossdock_root}: there are shared and, after `scripts/install PREFIX --static`, static")
    endif()
endforeach()
unset(_crossdock_component)
unset(_crossdock_languages)
unset(_crossdock_target)
unset(_crossdock_library)
unset(_crossdock_root)
