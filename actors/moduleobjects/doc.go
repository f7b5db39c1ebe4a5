// Package moduleobjects is the actor that writes an object of kind Module for each module, and takes the requests of people
// from these objects (J14 to J17). What is written comes from package actors/objects.
package moduleobjects
