// Package bring makes modules, in three ways: from a skeleton, from a chart that others have published
// (init.go, chart.go), and from a release that Helm has installed (import.go). It also replaces the
// chart of a module by another version (upgrade.go).
//
// What is made is prepared in a hidden directory next to the modules, checked there, and moved to its
// place by renames (init.go): an operator that watches the directory never reads a file that is half
// written, and a failure leaves everything as it was. Nothing is written to a cluster.
//
// A module that is made of a chart keeps the chart unchanged in chart/, so that another version can
// take its place. Around it are values.yaml and a schema of what people may write, and a
// test that passes (chart.go).
package bring
