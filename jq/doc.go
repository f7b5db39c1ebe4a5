// Package jq compiles and runs jq programs: filters of bindings and of object patches. It is the only package that
// imports the library. A program ends with its context, has no access to the environment, and what it can make of
// its input is bounded.
package jq
