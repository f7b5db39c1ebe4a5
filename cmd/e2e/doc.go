// Package e2e has no code, only tests: they run the program against a real API server.
package e2e
