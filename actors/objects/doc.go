// Package objects computes the status of objects of kind Module from the views of modules (J14).
//
// The status uses conventions of the ecosystem: the conditions Ready, Reconciling and Stalled, with the reasons that Flux
// has, so that kstatus computes the right status of the objects. The package writes nothing, and uses no actors.
package objects
