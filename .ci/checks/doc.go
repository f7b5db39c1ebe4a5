// Package checks has no code, only tests of what is not Go: workflows and forms in .github by a linter, alerts and
// the dashboard by Prometheus.
package checks
