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

// ForGlobal divides the patch of a global hook into operations on global values and flags (D20,
// D25), each in their order. It refuses all other paths. Values have no
// global.enabledModules, so a section refuses patches of it (D9).
func (p Patch) ForGlobal() (global Patch, flags []Flag, err error) {
	for _, operation := range p {
		var err error
		switch path := mustPointer(operation.Path); {
		case len(path) > 0 && isFlag(path[0]):
			var flag Flag
			flag, err = operation.flag(path)
			flags = append(flags, flag)
		case operation.within(GlobalKey):
			global = append(global, operation)
		default:
			err = fmt.Errorf("global hooks may change only /%s and flags such as /someModuleEnabled", GlobalKey)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("patch operation %s: %w", operation, err)
		}
	}
	return global, flags, nil
}

// within reports whether the path and, of move and copy, from are in the section with a key: both read or
// change values.
func (o Operation) within(key string) bool {
	section := pointer{key}
	return section.contains(mustPointer(o.Path)) && (o.From == "" || section.contains(mustPointer(o.From)))
}

// flag reads an operation on /someModuleEnabled.
func (o Operation) flag(path pointer) (Flag, error) {
	value, ok := flagValue(o.Value)
	switch {
	case len(path) != 1:
		return Flag{}, fmt.Errorf("%s is a flag and has no keys", path[0])
	case o.Op == "remove":
		return Flag{Key: path[0]}, nil
	case o.Op != "add" && o.Op != "replace":
		return Flag{}, errors.New("flags can only be added, replaced and removed")
	case !ok:
		return Flag{}, fmt.Errorf("value must be true or false, is %s", describe(o.Value))
	}
	return Flag{Key: path[0], Value: &value}, nil
}
