// Package operator starts the operator: it makes everything that the options ask for,
// connects it, and stops it in order. It decides nothing.
package operator
