// Package server answers HTTP: probes, metrics and debug pages.
//
// Each debug page is one look into the inspector or one message to an actor. What may
// show values of users is served on the debug address only, which is the loopback
// interface by default. Nothing is decided in here.
package server
