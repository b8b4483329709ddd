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
//   - nocloud: the serial names the seed. If that is a CD-ROM, its label is enough (dscheck_NoCloud, has_fs_with_label): a
//     serial such as "ds=nocloud" would make cloud-init go on with empty data if the CD-ROM could not be read.
//
// For other datasources than EC2 the serial is the instance-id, which begins with "i-": cloud-init up
// to 24.1 takes an instance for EC2's if UUID and serial are the same and begin with "ec2". Since
// 24.2 the UUID alone decides, so seedbed.Datasource.NewInstanceID gives others one without that
// prefix. libvirt refuses a UUID here that is not the domain's.
func smbios(id seedbed.InstanceID, datasource seedbed.Datasource, cdrom bool) *libvirtxml.DomainSysInfoSMBIOS {
	product, serial := "Seedbed Instance", id.EC2()
	switch datasource {
	case "", seedbed.DatasourceEC2:
		serial = string(id)
	case seedbed.DatasourceOpenStack:
		product = "OpenStack Nova"
	case seedbed.DatasourceNoCloud:
		if !cdrom {
			serial = noCloudSeed
		}
	}
	return &libvirtxml.DomainSysInfoSMBIOS{System: &libvirtxml.DomainSysInfoSystem{Entry: []libvirtxml.DomainSysInfoEntry{
		{Name: "manufacturer", Value: "Seedbed"},
		{Name: "product", Value: product},
		{Name: "serial", Value: serial},
		{Name: "uuid", Value: string(id)},
		{Name: "family", Value: "Virtual Machine"},
	}}}
}
