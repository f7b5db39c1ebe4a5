package messages

// ShutDown stops the operator in order.
type ShutDown struct{}
