# Crossdock for CMake: find_package(Crossdock 1 REQUIRED), then one of
#
#   target_link_libraries(program PRIVATE Crossdock::crossdock)         # libcrossdock.so.1
#   target_link_libraries(program PRIVATE Crossdock::crossdock_static)  # libcrossdock.a
#
# The second is there after `scripts/install PREFIX --static`; `COMPONENTS static` asks for it.
# All paths are relative to this file, so the installation can be moved as a whole.

# The root is the first one that has both the library and its headers. The path to this file can contain links: `/lib`
# to `usr/lib`, one to a folder, or one for each file (stow, spack).
get_filename_component(_crossdock_folder "${CMAKE_CURRENT_LIST_DIR}" REALPATH)
get_filename_component(_crossdock_file "${CMAKE_CURRENT_LIST_FILE}" REALPATH)
foreach(_crossdock_start IN ITEMS "${CMAKE_CURRENT_LIST_DIR}" "${_crossdock_folder}" "${_crossdock_file}/..")
    get_filename_component(_crossdock_root "${_crossdock_start}/../../.." ABSOLUTE)
    set(_crossdock_library "${_crossdock_root}/lib/libcrossdock.so.1")
    # A Python package has the library next to its folders.
    if(NOT EXISTS "${_crossdock_library}")
        set(_crossdock_library "${_crossdock_root}/libcrossdock.so.1")
    endif()
    if(EXISTS "${_crossdock_library}" AND EXISTS "${_crossdock_root}/include/crossdock/crossdock.h")
        break()
    endif()
    list(APPEND _crossdock_searched "${_crossdock_root}")
    unset(_crossdock_library)
endforeach()
if(NOT DEFINED _crossdock_library)
    list(REMOVE_DUPLICATES _crossdock_searched)
    list(JOIN _crossdock_searched ", " _crossdock_searched)
    set(Crossdock_FOUND FALSE)
    set(Crossdock_NOT_FOUND_MESSAGE
        "libcrossdock.so.1 or its headers are missing in: ${_crossdock_searched}; install Crossdock again")
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
unset(_crossdock_searched)
unset(_crossdock_root)
unset(_crossdock_folder)
unset(_crossdock_file)
