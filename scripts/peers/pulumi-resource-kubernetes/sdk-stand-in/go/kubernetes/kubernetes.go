// Package kubernetes stands in for the provider's SDK: the components for YAML and Helm, which the provider has in itself,
// are written with it. Two thirds of what the compiler would do for the provider are for them, and nobody here uses them.
package kubernetes

import "reflect"

type UntypedArgs map[string]any

func (UntypedArgs) ElementType() reflect.Type {
	return reflect.TypeFor[map[string]any]()
}
