package messages

// StartUp begins the first converge.
type StartUp struct{}

// ShutDown stops the operator in order.
type ShutDown struct{}
