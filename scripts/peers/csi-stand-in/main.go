// Command csi-stand-in stands in for the SPIFFE CSI driver (csi.spiffe.io) on one node: it puts the folder with the
// agent's socket into Pods, read-only, and announces itself to the kubelet, which is otherwise the work of a
// node-driver-registrar. It proves the kubelet's side of a CSI volume, not the real driver.
//
// Usage: csi-stand-in <folder with the socket> <kubelet's root folder> <node name>
package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

	"github.com/container-storage-interface/spec/lib/go/csi"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	registration "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
)

const driverName = "csi.spiffe.io"

type driver struct {
	csi.UnimplementedIdentityServer
	csi.UnimplementedNodeServer
	registration.UnimplementedRegistrationServer
	source, endpoint, node string
}

func (d *driver) GetPluginInfo(context.Context, *csi.GetPluginInfoRequest) (*csi.GetPluginInfoResponse, error) {
	return &csi.GetPluginInfoResponse{Name: driverName, VendorVersion: "0"}, nil
}

func (d *driver) GetPluginCapabilities(context.Context, *csi.GetPluginCapabilitiesRequest) (*csi.GetPluginCapabilitiesResponse, error) {
	return &csi.GetPluginCapabilitiesResponse{}, nil
}

func (d *driver) Probe(context.Context, *csi.ProbeRequest) (*csi.ProbeResponse, error) {
	return &csi.ProbeResponse{}, nil
}

func (d *driver) NodeGetCapabilities(context.Context, *csi.NodeGetCapabilitiesRequest) (*csi.NodeGetCapabilitiesResponse, error) {
	return &csi.NodeGetCapabilitiesResponse{}, nil
}

func (d *driver) NodeGetInfo(context.Context, *csi.NodeGetInfoRequest) (*csi.NodeGetInfoResponse, error) {
	return &csi.NodeGetInfoResponse{NodeId: d.node}, nil
}

// NodePublishVolume takes what the real driver takes: volumes that live and die with their Pod, and are only read.
func (d *driver) NodePublishVolume(_ context.Context, request *csi.NodePublishVolumeRequest) (*csi.NodePublishVolumeResponse, error) {
	if request.VolumeContext["csi.storage.k8s.io/ephemeral"] != "true" || !request.Readonly {
		return nil, status.Error(codes.InvalidArgument, "only ephemeral inline volumes with readOnly")
	}
	if err := os.MkdirAll(request.TargetPath, 0o777); err != nil {
		return nil, status.Errorf(codes.Internal, "unable to create target path %q: %v", request.TargetPath, err)
	}
	if err := bindReadOnly(d.source, request.TargetPath); err != nil {
		return nil, status.Errorf(codes.Internal, "unable to mount %q: %v", request.TargetPath, err)
	}
	fmt.Println("published", request.VolumeId)
	return &csi.NodePublishVolumeResponse{}, nil
}

// NodeUnpublishVolume is called again after a lost answer: what is gone is no error.
func (d *driver) NodeUnpublishVolume(_ context.Context, request *csi.NodeUnpublishVolumeRequest) (*csi.NodeUnpublishVolumeResponse, error) {
	err := syscall.Unmount(request.TargetPath, syscall.MNT_DETACH)
	if err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOENT) {
		return nil, status.Errorf(codes.Internal, "unable to unmount %q: %v", request.TargetPath, err)
	}
	if err := os.Remove(request.TargetPath); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, status.Errorf(codes.Internal, "unable to remove %q: %v", request.TargetPath, err)
	}
	fmt.Println("unpublished", request.VolumeId)
	return &csi.NodeUnpublishVolumeResponse{}, nil
}

func (d *driver) GetInfo(context.Context, *registration.InfoRequest) (*registration.PluginInfo, error) {
	return &registration.PluginInfo{
		Type:              registration.CSIPlugin,
		Name:              driverName,
		Endpoint:          d.endpoint,
		SupportedVersions: []string{"1.0.0"},
	}, nil
}

func (d *driver) NotifyRegistrationStatus(_ context.Context, answer *registration.RegistrationStatus) (*registration.RegistrationStatusResponse, error) {
	fmt.Println("registered", answer.PluginRegistered, answer.Error)
	return &registration.RegistrationStatusResponse{}, nil
}

// A bind mount is made read-only by a second call: the first one does not look at the flag.
func bindReadOnly(source, target string) error {
	if err := syscall.Mount(source, target, "", syscall.MS_BIND, ""); err != nil {
		return err
	}
	return syscall.Mount("", target, "", syscall.MS_BIND|syscall.MS_REMOUNT|syscall.MS_RDONLY, "")
}

func listen(socket string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(socket), 0o755); err != nil {
		return nil, err
	}
	if err := os.Remove(socket); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return net.Listen("unix", socket)
}

// The kubelet calls the driver as soon as it sees the second socket, so the first one has to be there.
func serve(source, kubeletRoot, node string) error {
	d := &driver{source: source, node: node, endpoint: filepath.Join(kubeletRoot, "plugins", driverName, "csi.sock")}
	volumes, err := listen(d.endpoint)
	if err != nil {
		return err
	}
	plugins, err := listen(filepath.Join(kubeletRoot, "plugins_registry", driverName+"-reg.sock"))
	if err != nil {
		return err
	}
	volumeServer := grpc.NewServer()
	csi.RegisterIdentityServer(volumeServer, d)
	csi.RegisterNodeServer(volumeServer, d)
	pluginServer := grpc.NewServer()
	registration.RegisterRegistrationServer(pluginServer, d)
	ended := make(chan error, 2)
	go func() { ended <- volumeServer.Serve(volumes) }()
	go func() { ended <- pluginServer.Serve(plugins) }()
	return <-ended
}

func main() {
	if len(os.Args) != 4 {
		fmt.Fprintln(os.Stderr, "usage: csi-stand-in <folder with the socket> <kubelet's root folder> <node name>")
		os.Exit(2)
	}
	if err := serve(os.Args[1], os.Args[2], os.Args[3]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
