// Package objects makes the status of objects of kind Module out of what people are shown of modules (J14).
//
// It decides in words that the ecosystem shares: the conditions Ready, Reconciling and Stalled, with the reasons that Flux
// has, so that kstatus computes the right status of the objects. It writes nothing, and knows no actor.
package objects
