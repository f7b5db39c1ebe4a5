// Package match compares what happened with what a test expects: values, which may have matchers such as $contains in
// their place (match.go), and lists of runs or calls (unmatched.go). It knows no operator.
package match
