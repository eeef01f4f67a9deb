# Files that pip installs next to the binaries: models, decks, examples, licences and a bill of materials.
install(DIRECTORY benchmarks/decks DESTINATION mlff_tools/benchmarks COMPONENT wheel)
install(DIRECTORY examples/lammps_inputs DESTINATION mlff_tools/examples COMPONENT wheel)
install(DIRECTORY models/ DESTINATION mlff_tools/models COMPONENT wheel FILES_MATCHING
  PATTERN "*.yaml" PATTERN "*.safetensors" PATTERN "LICENSE*" PATTERN "README.md"
  PATTERN certificates EXCLUDE PATTERN recipes EXCLUDE)

# The licence of a statically linked libyaml (scripts/static_libyaml.sh).
set(sbom_libyaml "")
set(about_libyaml "${libyaml_INCLUDE_DIR}/../share/licenses/libyaml")
if(EXISTS "${about_libyaml}/LICENSE")
  install(FILES "${about_libyaml}/LICENSE" RENAME LICENSE.libyaml DESTINATION "${SKBUILD_METADATA_DIR}/licenses"
    COMPONENT wheel)
  file(READ "${about_libyaml}/VERSION" version)
  string(STRIP "${version}" version)
  set(sbom_libyaml ",
    {\"type\": \"library\", \"bom-ref\": \"libyaml\", \"name\": \"libyaml\", \"version\": \"${version}\",
     \"purl\": \"pkg:generic/libyaml@${version}\", \"licenses\": [{\"license\": {\"id\": \"MIT\"}}],
     \"description\": \"Linked into libmlff.so, mlffplugin.so and the program mlff.\"}")
endif()

# CycloneDX, in the directory of PEP 770. Without date and serial number, for reproducible builds.
configure_file("${CMAKE_CURRENT_LIST_DIR}/sbom.cdx.json.in" "${CMAKE_CURRENT_BINARY_DIR}/mlff.cdx.json" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/mlff.cdx.json" DESTINATION "${SKBUILD_METADATA_DIR}/sboms" COMPONENT wheel)
