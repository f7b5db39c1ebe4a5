package work

import "addon-operator/messages"

// Paths of the actors.
const (
	Root         = "operator"
	ModulePath   = Root + "/module/"
	QueuePath    = Root + "/queue/"
	GlobalPath   = Root + "/" + messages.GlobalHooks
	ConvergePath = Root + "/" + messages.Converge
	MonitorsPath = Root + "/monitors"
	HealerPath   = Root + "/healer"
	ConfigPath   = Root + "/config"
	SchedulePath = Root + "/schedule"
	ObjectsPath  = Root + "/module-objects"
)

// OwnerPath is the address of an owner of tasks.
func OwnerPath(name string) string {
	switch name {
	case messages.GlobalHooks:
		return GlobalPath
	case messages.Converge:
		return ConvergePath
	}
	return ModulePath + name
}
