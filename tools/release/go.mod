// What is released beside the program: licences, bill of materials, provenance (make release). Nothing here reaches users.
module gpufabric_exporter/tools/release

go 1.26.0

require github.com/google/licensecheck v0.3.1
