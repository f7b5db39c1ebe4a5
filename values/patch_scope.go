package values

import (
	"errors"
	"fmt"
)

// Flag is the decision of a global hook to enable or disable a module (D25).
type Flag struct {
	Key   string // like someModuleEnabled
	Value *bool  // nil withdraws the decision
}

// ForModule checks that every path of the patch is in the section of the module, and returns the
// patch (D20). Module hooks change nothing else: neither global values (X15) nor flags nor other
// modules. One wrong path refuses all of it.
func (p Patch) ForModule(key string) (Patch, error) {
	var problems []error
	for _, operation := range p {
		for _, path := range operation.paths() {
			if len(path) == 0 || path[0] != key {
				problems = append(problems, fmt.Errorf("patch operation %s: hooks of this module may change only /%s", operation, key))
				break
			}
		}
	}
	if len(problems) > 0 {
		return nil, errors.Join(problems...)
	}
	return p, nil
}

// ForGlobal divides the patch of a global hook into operations on global values and flags (D20,
// D25), each in their order. It refuses all other paths, and global.enabledModules, which only the
// operator computes (D9).
func (p Patch) ForGlobal() (Patch, []Flag, error) {
	var (
		global   Patch
		flags    []Flag
		problems []error
	)
	for _, operation := range p {
		if _, ok := flagOwner(operation.firstElement()); ok {
			flag, err := operation.flag()
			if err != nil {
				problems = append(problems, fmt.Errorf("patch operation %s: %w", operation, err))
				continue
			}
			flags = append(flags, flag)
			continue
		}
		if err := operation.checkGlobal(); err != nil {
			problems = append(problems, fmt.Errorf("patch operation %s: %w", operation, err))
			continue
		}
		global = append(global, operation)
	}
	if len(problems) > 0 {
		return nil, nil, errors.Join(problems...)
	}
	return global, flags, nil
}

// paths returns the path and, for move and copy, from: both read or change values, so both must be
// in scope.
func (o Operation) paths() []pointer {
	paths := []pointer{mustPointer(o.Path)}
	if o.Op == "move" || o.Op == "copy" {
		paths = append(paths, mustPointer(o.From))
	}
	return paths
}

func (o Operation) firstElement() string {
	if path := mustPointer(o.Path); len(path) > 0 {
		return path[0]
	}
	return ""
}

// flag reads an operation on /someModuleEnabled.
func (o Operation) flag() (Flag, error) {
	path := mustPointer(o.Path)
	if len(path) != 1 {
		return Flag{}, fmt.Errorf("%s is a flag and has no keys", path[0])
	}
	switch o.Op {
	case "remove":
		return Flag{Key: path[0]}, nil
	case "add", "replace":
		value, ok := flagValue(o.Value)
		if !ok {
			return Flag{}, fmt.Errorf("value must be true or false, is %s", describe(o.Value))
		}
		return Flag{Key: path[0], Value: &value}, nil
	}
	return Flag{}, errors.New("flags can only be added, replaced and removed")
}

// checkGlobal also refuses to read enabledModules: global hooks do not have it, so the operation
// must be a mistake. A value for the whole section may not contain it either.
func (o Operation) checkGlobal() error {
	for _, path := range o.paths() {
		if len(path) == 0 || path[0] != GlobalKey {
			return fmt.Errorf("global hooks may change only /%s and flags such as /someModuleEnabled", GlobalKey)
		}
		if len(path) > 1 && path[1] == enabledModulesKey {
			return errEnabledModules()
		}
	}
	if value, ok := o.Value.(map[string]any); ok && len(mustPointer(o.Path)) == 1 {
		if _, ok := value[enabledModulesKey]; ok {
			return errEnabledModules()
		}
	}
	return nil
}

func errEnabledModules() error {
	return fmt.Errorf("%s.%s is computed by the operator and cannot be patched", GlobalKey, enabledModulesKey)
}
