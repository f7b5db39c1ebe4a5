// Package addons reads what lies on disk: the directories of modules and of global
// hooks, their names and order, their static values and their schemas.
//
// It starts nothing: hooks and enabled scripts are only found here and run by package
// hooks. It knows neither the cluster nor the actors.
package addons
