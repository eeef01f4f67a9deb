# What pip installs beside the binaries: models, decks, examples, licences, and the list of what is inside.
install(DIRECTORY benchmarks/decks DESTINATION mlff_tools/benchmarks COMPONENT wheel)
install(DIRECTORY examples/lammps_inputs DESTINATION mlff_tools/examples COMPONENT wheel)
install(DIRECTORY models/ DESTINATION mlff_tools/models COMPONENT wheel FILES_MATCHING
  PATTERN "*.yaml" PATTERN "*.safetensors" PATTERN "LICENSE*" PATTERN "README.md"
  PATTERN certificates EXCLUDE PATTERN recipes EXCLUDE)

# A libyaml that is linked into the wheel's files (scripts/static_libyaml.sh) brings its licence along.
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

# CycloneDX, where PEP 770 wants it. Without date and serial number: two builds give the same bytes.
configure_file("${CMAKE_CURRENT_LIST_DIR}/sbom.cdx.json.in" "${CMAKE_CURRENT_BINARY_DIR}/mlff.cdx.json" @ONLY)
install(FILES "${CMAKE_CURRENT_BINARY_DIR}/mlff.cdx.json" DESTINATION "${SKBUILD_METADATA_DIR}/sboms" COMPONENT wheel)
