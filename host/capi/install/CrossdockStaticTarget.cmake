# The static library, and what it needs: included by CrossdockConfig.cmake.
if(NOT TARGET Crossdock::crossdock_static)
    add_library(Crossdock::crossdock_static STATIC IMPORTED)
    set_target_properties(Crossdock::crossdock_static PROPERTIES
        IMPORTED_LOCATION "${_crossdock_root}/lib/libcrossdock.a"
        IMPORTED_LINK_INTERFACE_LANGUAGES C
        INTERFACE_INCLUDE_DIRECTORIES "${_crossdock_root}/include"
        INTERFACE_LINK_LIBRARIES "@NATIVE_LIBRARIES@")
endif()
