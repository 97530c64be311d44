# Before CPack makes the .deb: Debian's Python looks for packages in dist-packages, as deep below /usr/lib as site-packages is.
file(GLOB modules ${CPACK_TEMPORARY_DIRECTORY}/usr/lib/python3.*/site-packages)
foreach(module ${modules})
  file(MAKE_DIRECTORY ${CPACK_TEMPORARY_DIRECTORY}/usr/lib/python3)
  file(RENAME ${module} ${CPACK_TEMPORARY_DIRECTORY}/usr/lib/python3/dist-packages)
  get_filename_component(emptied ${module} DIRECTORY)
  file(REMOVE_RECURSE ${emptied})
endforeach()
