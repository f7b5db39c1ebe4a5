// Package check says what is wrong with files, with a ConfigMap and with a Secret with values before an operator gets them:
// what commands and scenarios ask without a cluster. It answers by the rules of package decide, by which a running operator
// accepts the same contents.
package check
