# The shape of our targets: object libraries whose include paths say who may know whom, and the
# libraries that are made of them.
#
#   rlk_base                 libc only                       include/ src/base
#   rlk_core                 base + rowlock/driver.h         include/ src/base src/core
#   rlk_<driver>             base + its own client library   include/ src/base src/drivers/<driver>
#   rowlock                  base + core                     installed
#   rowlock-<driver>         base + driver                   installed
#   rowlock_testing          all of them, static, nothing hidden; for tests

set(rlk_package_dir ${CMAKE_INSTALL_LIBDIR}/cmake/rowlock)

# rlk_objects(<target> <source>...): an object library that sees include/ and src/base.
function(rlk_objects target)
    add_library(${target} OBJECT ${ARGN})
    target_include_directories(${target} PRIVATE ${PROJECT_SOURCE_DIR}/include
                               ${PROJECT_SOURCE_DIR}/src/base)
    set_property(GLOBAL APPEND PROPERTY rowlock_objects ${target})
endfunction()

# rlk_library(<name> <component> <objects>...): an installed library made of object libraries, for
# users rowlock::<component>. Exports rowlock_* and nothing else (cmake/rowlock.map).
function(rlk_library name component)
    set(objects "")
    foreach(part IN LISTS ARGN)
        list(APPEND objects $<TARGET_OBJECTS:${part}>)
    endforeach()
    add_library(${name} ${objects})
    add_library(rowlock::${component} ALIAS ${name})
    set_target_properties(${name} PROPERTIES VERSION ${PROJECT_VERSION} EXPORT_NAME ${component}
                          SOVERSION ${PROJECT_VERSION_MAJOR} LINKER_LANGUAGE C
                          LINK_DEPENDS ${PROJECT_SOURCE_DIR}/cmake/rowlock.map)
    if(BUILD_SHARED_LIBS)
        target_link_options(${name} PRIVATE
                            LINKER:--version-script=${PROJECT_SOURCE_DIR}/cmake/rowlock.map)
        # A thread that looks a name up may still run after the last client was closed.
        target_link_options(${name} PRIVATE LINKER:-z,nodelete)
        if(NOT ROWLOCK_SANITIZE)
            target_link_options(${name} PRIVATE LINKER:-z,defs)
        endif()
    endif()
    target_include_directories(${name} PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
                               $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
    set_property(GLOBAL APPEND PROPERTY rowlock_libraries ${name})
    install(TARGETS ${name} EXPORT ${name}-targets)
    install(EXPORT ${name}-targets NAMESPACE rowlock:: DESTINATION ${rlk_package_dir})
endfunction()

# Finds a client library by its pkg-config names, "a|b": the first that is there. Sets <out> to a
# target and <out>_pkg to the name.
function(rlk_find_client out names)
    string(REPLACE "|" ";" names "${names}")
    foreach(name IN LISTS names)
        pkg_check_modules(${out}_client QUIET IMPORTED_TARGET ${name})
        if(${out}_client_FOUND)
            set(${out} PkgConfig::${out}_client PARENT_SCOPE)
            set(${out}_pkg "${name}" PARENT_SCOPE)
            return()
        endif()
    endforeach()
    set(${out} "" PARENT_SCOPE)
endfunction()

# rowlock_driver(<name> <OPTION> <pkg-config names> <Debian package>)
function(rowlock_driver name option names package)
    if(NOT ROWLOCK_${option} MATCHES "^(AUTO|ON|OFF)$")
        message(FATAL_ERROR "ROWLOCK_${option} is '${ROWLOCK_${option}}', not AUTO, ON or OFF")
    endif()
    if(ROWLOCK_${option} STREQUAL "OFF")
        return()
    endif()
    rlk_find_client(${name} "${names}")
    if(NOT ${name})
        if(ROWLOCK_${option} STREQUAL "ON")
            message(FATAL_ERROR "ROWLOCK_${option} is ON, but ${names} was not found: install ${package}")
        endif()
        message(STATUS "rowlock: no ${name} driver (${package} is not installed)")
        return()
    endif()

    set(header ${CMAKE_CURRENT_BINARY_DIR}/generated/${name}/sql_${name}.h)
    file(GLOB steps CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/migrations/${name}/*.sql)
    add_custom_command(
        OUTPUT ${header}
        COMMAND ${CMAKE_COMMAND} -DDIALECT=${name} -DSQL=${PROJECT_SOURCE_DIR}/sql/${name}.sql
                -DNAMES=${PROJECT_SOURCE_DIR}/sql/statements.txt
                -DMIGRATIONS=${PROJECT_SOURCE_DIR}/migrations/${name} -DOUT=${header}
                -P ${PROJECT_SOURCE_DIR}/sql/embed.cmake
        DEPENDS ${PROJECT_SOURCE_DIR}/sql/${name}.sql ${PROJECT_SOURCE_DIR}/sql/statements.txt
                ${PROJECT_SOURCE_DIR}/sql/embed.cmake ${steps}
        VERBATIM)
    file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/src/drivers/${name}/*.c)
    rlk_objects(rlk_${name} ${sources} ${header})
    target_include_directories(rlk_${name} PRIVATE ${PROJECT_SOURCE_DIR}/src/drivers/${name}
                               ${CMAKE_CURRENT_BINARY_DIR}/generated/${name})
    target_link_libraries(rlk_${name} PRIVATE ${${name}})
    # SQL text may be longer than the 4095 bytes that the standard promises for a string.
    target_compile_options(rlk_${name} PRIVATE -Wno-overlength-strings)
    rlk_library(rowlock-${name} ${name} rlk_base rlk_${name})
    target_link_libraries(rowlock-${name} PRIVATE ${${name}} Threads::Threads PUBLIC rowlock)
    set_property(GLOBAL APPEND PROPERTY rowlock_drivers ${name})
    rlk_pkgconfig(rowlock-${name} "The ${name} driver of rowlock" rowlock "${${name}_pkg}")
    install(DIRECTORY ${PROJECT_SOURCE_DIR}/migrations/${name}
            DESTINATION ${CMAKE_INSTALL_DATADIR}/rowlock/migrations)
endfunction()

# Everything in one static library, for tests that look inside.
function(rowlock_testing_library)
    get_property(parts GLOBAL PROPERTY rowlock_objects)
    set(objects "")
    foreach(part IN LISTS parts)
        list(APPEND objects $<TARGET_OBJECTS:${part}>)
    endforeach()
    add_library(rowlock_testing STATIC ${objects})
    target_include_directories(rowlock_testing PUBLIC ${PROJECT_SOURCE_DIR}/include
                               ${PROJECT_SOURCE_DIR}/src/base ${PROJECT_SOURCE_DIR}/src/core)
    target_link_libraries(rowlock_testing PUBLIC Threads::Threads)
    get_property(drivers GLOBAL PROPERTY rowlock_drivers)
    foreach(name IN LISTS drivers)
        string(TOUPPER ${name} upper)
        target_compile_definitions(rowlock_testing PUBLIC ROWLOCK_HAVE_${upper}=1)
        target_link_libraries(rowlock_testing PUBLIC PkgConfig::${name}_client)
    endforeach()
endfunction()

# rlk_pkgconfig(<name> <description> <requires> <client>): <name>.pc. What the library needs itself is
# private to a shared one; users of a static one must link it too.
function(rlk_pkgconfig name description requires client)
    string(REGEX REPLACE "([<>=]+)" " \\1 " client "${client}")
    set(requires_private "")
    set(libs_private "")
    set(libs "-L\${libdir} -l${name}")
    if(BUILD_SHARED_LIBS)
        set(requires_private "${client}")
        set(libs_private "-pthread")
    else()
        string(APPEND libs " -pthread")
        string(JOIN ", " requires ${requires} ${client})
    endif()
    set(libdir "")
    set(includedir "")
    cmake_path(APPEND libdir "\${prefix}" "${CMAKE_INSTALL_LIBDIR}")
    cmake_path(APPEND includedir "\${prefix}" "${CMAKE_INSTALL_INCLUDEDIR}")
    # The prefix is filled in at last: `cmake --install --prefix` may name another one.
    set(CMAKE_INSTALL_PREFIX "@CMAKE_INSTALL_PREFIX@")
    set(file ${PROJECT_BINARY_DIR}/${name}.pc)
    configure_file(${PROJECT_SOURCE_DIR}/cmake/rowlock.pc.in ${file}.in @ONLY)
    install(CODE "configure_file(\"${file}.in\" \"${file}\" @ONLY)")
    install(FILES ${file} DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig)
    set_property(GLOBAL APPEND_STRING PROPERTY rowlock_clients
                 "set(rowlock_client_${name} \"${client}\")\n")
endfunction()

# Installs the headers and the CMake package; libraries install themselves where they are made.
function(rowlock_install)
    rlk_pkgconfig(rowlock "${PROJECT_DESCRIPTION}" "" "")
    get_property(rlk_clients GLOBAL PROPERTY rowlock_clients)
    install(DIRECTORY include/rowlock DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
    configure_package_config_file(cmake/rowlock-config.cmake.in
                                  ${PROJECT_BINARY_DIR}/rowlock-config.cmake
                                  INSTALL_DESTINATION ${rlk_package_dir}
                                  NO_CHECK_REQUIRED_COMPONENTS_MACRO)
    write_basic_package_version_file(${PROJECT_BINARY_DIR}/rowlock-config-version.cmake
                                     COMPATIBILITY SameMajorVersion)
    install(FILES ${PROJECT_BINARY_DIR}/rowlock-config.cmake
                  ${PROJECT_BINARY_DIR}/rowlock-config-version.cmake
            DESTINATION ${rlk_package_dir})
endfunction()
