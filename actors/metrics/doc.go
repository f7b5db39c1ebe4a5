// Package metrics counts what the operator does (chapter I of the rules). [Metrics] has one field for each thing that is
// counted, and whoever does that thing calls its field. States are not counted: [live] reads them from what the actors
// publish, at the moment of a scrape. [Reports] holds what hooks report about themselves.
//
// Hooks, actors and scrapes use it from many goroutines: the vectors of the Prometheus client are safe for that, what a
// scrape reads is replaced as a whole, and a mutex guards the reports.
package metrics
