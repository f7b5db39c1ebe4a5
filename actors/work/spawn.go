package work

import (
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/values"
)

// AdoptModule gives a module actor the module's directory, whose files have changed, which came back after it was
// removed, or has another name, and the values in it. The module starts from the beginning; its release stays.
type AdoptModule struct {
	Module  addons.Module
	Section *values.Section
}

// UpdateModule gives a module actor what the values.yaml files of the roots say about it now (P8).
type UpdateModule struct {
	Module  addons.Module
	Section *values.Section // static values and schemas; nil when they are the same
}

// UpdateGlobal gives global-hooks what has changed on disk (P8).
type UpdateGlobal struct {
	Section *values.Section // static values and schemas; nil when they are the same
	Hooks   []hooks.Hook
	Asked   bool // the hooks were asked for their configuration; else they are the same
}

// AddSections adds to config the modules that were found after the start. Each receives its section of the ConfigMap
// before SectionsAdded answers the discovery that asked the operator for them, so that no run begins without its
// section.
type (
	AddSections struct {
		Modules  []addons.Module
		Sections map[string]*values.Section
	}
	// SectionsAdded is the answer. Err is why the operator has spawned none.
	SectionsAdded struct{ Err error }
)
