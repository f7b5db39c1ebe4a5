// Package standin takes the place of what hooks call in a test: programs (commands.go), and HTTP servers (http.go).
// Each answers as the test says, and remembers how it was called. It knows no operator.
package standin
