package values

import "fmt"

// NoResourceReconciliation is the mode of maintenance in which the hooks of a module continue while
// its release does not change: nothing is installed, upgraded, healed or deleted (H15). It is the
// only one.
const NoResourceReconciliation = "NoResourceReconciliation"

// Suspended is the mode in which a module neither changes its release nor runs its hooks (H27). A
// person requests it by an object of kind Module; the ConfigMap cannot contain it.
const Suspended = "Suspended"

// addMaintenance reads a mode. An empty text is none: it overrides the mode of a weaker file.
func (d Document) addMaintenance(key string, value any) error {
	mode, ok := value.(string)
	if !ok {
		return fmt.Errorf("must be the name of a maintenance mode, is %s", describe(value))
	}
	if mode != "" && mode != NoResourceReconciliation {
		return fmt.Errorf("there is no maintenance mode %q; write %s, or an empty string for none", mode, NoResourceReconciliation)
	}
	d.Maintenance[key] = mode
	return nil
}
