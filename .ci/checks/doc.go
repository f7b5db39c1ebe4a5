// Package checks has no code, only tests: they lint what is not Go, the workflows and forms in .github and the
// Dockerfile, with the linters of others.
package checks
