// Command release builds what one version of the operator consists of, the same bytes each time:
//
//	go run . -version v0.1.0 -out ../../dist
//
// It cross-compiles the program, and makes of each binary an archive and a bill of materials in
// SPDX 2.3. It packages the Deployment's chart, copies the manifests, and writes completions, the
// manifest for krew, the licences of all modules in the binaries, and SHA256SUMS.
//
// Nothing in a release depends on the machine, the directory or the time: times are those of the
// commit, archives are in the order of their names and have no owner. The same commit and the same
// version of Go give the same bytes.
//
// What publishes a release does not belong here: a workflow does that.
package main
