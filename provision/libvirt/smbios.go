package libvirt

import (
	"libvirt.org/go/libvirtxml"

	"seedbed"
)

// noCloudSeed is the serial from which ds-identify and DataSourceNoCloud learn where the seed is.
// cloud-init 22.4 does not append the final slash by itself.
const noCloudSeed = "ds=nocloud;s=http://169.254.169.254/nocloud/"

// smbios returns the DMI system table that announces the datasource (cloud-init's ds-identify,
// functions dscheck_Ec2, dscheck_OpenStack and dscheck_NoCloud):
//
//   - ec2: the serial equals the UUID, which begins with "ec2".
//   - openstack: the product is "OpenStack Nova".
//   - nocloud: the serial names the seed.
//
// For other datasources than EC2 the serial is the instance-id, which begins with "i-". cloud-init
// 22.4 compares UUID and serial; recent releases recognize EC2 by the UUID alone, and libvirt
// refuses a UUID here that is not the domain's.
func smbios(id seedbed.InstanceID, datasource seedbed.Datasource) *libvirtxml.DomainSysInfoSMBIOS {
	product, serial := "Seedbed Instance", id.EC2()
	switch datasource {
	case "", seedbed.DatasourceEC2:
		serial = string(id)
	case seedbed.DatasourceOpenStack:
		product = "OpenStack Nova"
	case seedbed.DatasourceNoCloud:
		serial = noCloudSeed
	}
	return &libvirtxml.DomainSysInfoSMBIOS{System: &libvirtxml.DomainSysInfoSystem{Entry: []libvirtxml.DomainSysInfoEntry{
		{Name: "manufacturer", Value: "Seedbed"},
		{Name: "product", Value: product},
		{Name: "serial", Value: serial},
		{Name: "uuid", Value: string(id)},
		{Name: "family", Value: "Virtual Machine"},
	}}}
}
