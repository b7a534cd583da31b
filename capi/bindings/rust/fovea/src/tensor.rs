//! Views of slices: shape and strides, checked against the memory they are laid over.
use crate::{sys, Error, Result, Status};
use std::marker::PhantomData;
use std::os::raw::c_void;
use std::ptr::{null, null_mut};

/// What tensors are made of: `f32`, with the feature `half` its `f16` and `bf16`; integers for lengths and positions, `bool` or
/// `u8` for masks. Which of them an argument takes is the operation's to say.
///
/// # Safety
/// `DTYPE` is the number of a type with this size and alignment, of which every bit pattern that the library writes is a
/// value.
pub unsafe trait Element: Copy + Send + Sync + 'static {
    const DTYPE: i32;
}

/// Two features of 4 bits in a byte, as values may be kept: what `U8` tensors are made of. A plain `u8` is a mask's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(transparent)]
pub struct FourBits(pub u8);

/// A tensor that is read: a slice, a shape and strides in elements. Copying it copies the description alone.
#[derive(Clone, Copy)]
pub struct Tensor<'a> {
    raw: sys::fovea_tensor,
    _data: PhantomData<&'a [u8]>,
}

/// A tensor that is written.
pub struct TensorMut<'a> {
    raw: sys::fovea_tensor,
    _data: PhantomData<&'a mut [u8]>,
}

// They are a shared and an exclusive borrow of a slice of elements, which are Send and Sync.
unsafe impl Send for Tensor<'_> {}
unsafe impl Sync for Tensor<'_> {}
unsafe impl Send for TensorMut<'_> {}
unsafe impl Sync for TensorMut<'_> {}

/// A tensor of either kind, as plans take it, which read no data. Nothing else can be one: a plan checks the slices of its
/// runs against the very layout that it was made of.
///
/// ```compile_fail,E0277
/// struct Mine;
/// impl fovea::View for Mine {}
/// ```
pub trait View: sealed::Raw {
    /// Sizes of the axes.
    fn shape(&self) -> &[i64] {
        let raw = self.raw();
        &raw.shape[..raw.rank.clamp(0, sys::FOVEA_MAX_RANK as i32) as usize]
    }
}

impl View for Tensor<'_> {}
impl View for TensorMut<'_> {}

pub(crate) mod sealed {
    use super::{sys, Layout, Tensor, TensorMut};

    /// What C is given of a tensor. In a module that other crates do not see, so that they cannot say it differently.
    pub trait Raw {
        fn raw(&self) -> &sys::fovea_tensor;

        fn layout(&self) -> Layout {
            Layout::of(self.raw())
        }
    }

    impl Raw for Tensor<'_> {
        fn raw(&self) -> &sys::fovea_tensor {
            &self.raw
        }
    }

    impl Raw for TensorMut<'_> {
        fn raw(&self) -> &sys::fovea_tensor {
            &self.raw
        }
    }
}

fn refuse<T>(status: Status, message: String) -> Result<T> {
    Err(Error::new(status, message))
}

fn describe(dtype: i32, shape: &[usize], strides: Option<&[isize]>) -> Result<sys::fovea_tensor> {
    if shape.len() > sys::FOVEA_MAX_RANK {
        return refuse(
            Status::BadRank,
            format!("shape has {} axes, expected at most {}", shape.len(), sys::FOVEA_MAX_RANK),
        );
    }
    if strides.map_or(false, |strides| strides.len() != shape.len()) {
        return refuse(Status::BadStride, format!("{} strides for {} axes", strides.unwrap().len(), shape.len()));
    }
    let rank = shape.len() as i32;
    let mut raw = sys::fovea_tensor { data: null_mut(), dtype, rank, shape: [0; 6], strides: [0; 6] };
    let mut step = 1i64;
    for axis in (0..shape.len()).rev() {
        let too_large = || Error::new(Status::SizeOverflow, format!("shape {shape:?} has too many elements"));
        raw.shape[axis] = i64::try_from(shape[axis]).map_err(|_| too_large())?;
        raw.strides[axis] = strides.map_or(step, |strides| strides[axis] as i64);
        step = step.checked_mul(raw.shape[axis].max(1)).ok_or_else(too_large)?;
    }
    Ok(raw)
}

/// Lowest and highest element that a view reaches, from its first; nothing where it has no elements or they overflow.
fn reach(raw: &sys::fovea_tensor) -> Option<(i64, i64)> {
    let (mut lowest, mut highest) = (0i64, 0i64);
    for axis in 0..raw.rank.max(0) as usize {
        let last = raw.shape[axis].checked_sub(1).filter(|last| *last >= 0)?;
        let far = if last == 0 { 0 } else { raw.strides[axis].checked_mul(last)? };
        lowest = lowest.checked_add(far.min(0))?;
        highest = highest.checked_add(far.max(0))?;
    }
    Some((lowest, highest))
}

/// Lays the view over `len` elements at `data`, its first element being the one at `offset`.
fn lay(
    mut raw: sys::fovea_tensor,
    data: *mut c_void,
    len: usize,
    size: usize,
    offset: usize,
) -> Result<sys::fovea_tensor> {
    let shape = &raw.shape[..raw.rank as usize];
    let strides = &raw.strides[..raw.rank as usize];
    let empty = shape.contains(&0);
    let fits = empty
        || reach(&raw).map_or(false, |(lowest, highest)| {
            let first = offset as i128;
            first + lowest as i128 >= 0 && first + (highest as i128) < len as i128
        });
    if !fits {
        let what = format!("shape {shape:?} with strides {strides:?} from element {offset} on");
        return refuse(Status::BadShape, format!("{what} does not lie within a slice of {len}"));
    }
    raw.data = if empty { data } else { data.cast::<u8>().wrapping_add(offset * size).cast() };
    Ok(raw)
}

fn filled(raw: &sys::fovea_tensor, len: usize) -> Result<()> {
    let shape = &raw.shape[..raw.rank as usize];
    let elements = if shape.contains(&0) { 0 } else { shape.iter().product::<i64>() };
    if elements as u64 == len as u64 {
        return Ok(());
    }
    refuse(Status::BadShape, format!("shape {shape:?} has {elements} elements, the slice {len}"))
}

impl<'a> Tensor<'a> {
    /// A row-major tensor that fills the slice.
    pub fn new<T: Element>(data: &'a [T], shape: impl AsRef<[usize]>) -> Result<Self> {
        let raw = describe(T::DTYPE, shape.as_ref(), None)?;
        filled(&raw, data.len())?;
        let raw = lay(raw, data.as_ptr() as *mut c_void, data.len(), std::mem::size_of::<T>(), 0)?;
        Ok(Tensor { raw, _data: PhantomData })
    }

    /// Element (i0, i1, ...) is `data[offset + i0 * strides[0] + i1 * strides[1] + ...]`. A stride of 0 repeats.
    pub fn strided<T: Element>(
        data: &'a [T],
        offset: usize,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<Self> {
        let raw = describe(T::DTYPE, shape.as_ref(), Some(strides.as_ref()))?;
        let raw = lay(raw, data.as_ptr() as *mut c_void, data.len(), std::mem::size_of::<T>(), offset)?;
        Ok(Tensor { raw, _data: PhantomData })
    }

    /// A row-major tensor without data, for plans.
    pub fn shape_only<T: Element>(shape: impl AsRef<[usize]>) -> Result<Self> {
        Ok(Tensor { raw: describe(T::DTYPE, shape.as_ref(), None)?, _data: PhantomData })
    }

    pub(crate) unsafe fn from_raw(raw: sys::fovea_tensor) -> Self {
        Tensor { raw, _data: PhantomData }
    }
}

impl<'a> TensorMut<'a> {
    /// A row-major tensor that fills the slice.
    pub fn new<T: Element>(data: &'a mut [T], shape: impl AsRef<[usize]>) -> Result<Self> {
        let raw = describe(T::DTYPE, shape.as_ref(), None)?;
        filled(&raw, data.len())?;
        let raw = lay(raw, data.as_mut_ptr().cast(), data.len(), std::mem::size_of::<T>(), 0)?;
        Ok(TensorMut { raw, _data: PhantomData })
    }

    /// As [`Tensor::strided`]. The library refuses a view that overlaps itself.
    pub fn strided<T: Element>(
        data: &'a mut [T],
        offset: usize,
        shape: impl AsRef<[usize]>,
        strides: impl AsRef<[isize]>,
    ) -> Result<Self> {
        let raw = describe(T::DTYPE, shape.as_ref(), Some(strides.as_ref()))?;
        let raw = lay(raw, data.as_mut_ptr().cast(), data.len(), std::mem::size_of::<T>(), offset)?;
        Ok(TensorMut { raw, _data: PhantomData })
    }

    /// A row-major tensor without data, for plans.
    pub fn shape_only<T: Element>(shape: impl AsRef<[usize]>) -> Result<Self> {
        Ok(TensorMut { raw: describe(T::DTYPE, shape.as_ref(), None)?, _data: PhantomData })
    }

    pub(crate) unsafe fn from_raw(raw: sys::fovea_tensor) -> Self {
        TensorMut { raw, _data: PhantomData }
    }
}

impl<'a> From<&Tensor<'a>> for Tensor<'a> {
    fn from(tensor: &Tensor<'a>) -> Self {
        *tensor
    }
}

impl<'a> From<&'a mut TensorMut<'_>> for TensorMut<'a> {
    fn from(tensor: &'a mut TensorMut<'_>) -> Self {
        TensorMut { raw: tensor.raw, _data: PhantomData }
    }
}

/// A tensor of rank 1.
impl<'a, T: Element> From<&'a [T]> for Tensor<'a> {
    fn from(data: &'a [T]) -> Self {
        Tensor { raw: vector(T::DTYPE, data.as_ptr() as *mut c_void, data.len()), _data: PhantomData }
    }
}

impl<'a, T: Element> From<&'a Vec<T>> for Tensor<'a> {
    fn from(data: &'a Vec<T>) -> Self {
        data.as_slice().into()
    }
}

impl<'a, T: Element, const N: usize> From<&'a [T; N]> for Tensor<'a> {
    fn from(data: &'a [T; N]) -> Self {
        data.as_slice().into()
    }
}

/// A tensor of rank 1.
impl<'a, T: Element> From<&'a mut [T]> for TensorMut<'a> {
    fn from(data: &'a mut [T]) -> Self {
        TensorMut { raw: vector(T::DTYPE, data.as_mut_ptr().cast(), data.len()), _data: PhantomData }
    }
}

impl<'a, T: Element> From<&'a mut Vec<T>> for TensorMut<'a> {
    fn from(data: &'a mut Vec<T>) -> Self {
        data.as_mut_slice().into()
    }
}

impl<'a, T: Element, const N: usize> From<&'a mut [T; N]> for TensorMut<'a> {
    fn from(data: &'a mut [T; N]) -> Self {
        data.as_mut_slice().into()
    }
}

fn vector(dtype: i32, data: *mut c_void, len: usize) -> sys::fovea_tensor {
    // A slice has at most isize::MAX bytes.
    sys::fovea_tensor { data, dtype, rank: 1, shape: [len as i64, 0, 0, 0, 0, 0], strides: [1, 0, 0, 0, 0, 0] }
}

pub(crate) fn tensor_pointer(tensor: &Option<Tensor<'_>>) -> *const sys::fovea_tensor {
    tensor.as_ref().map_or(null(), |tensor| &tensor.raw)
}

pub(crate) fn output_pointer(tensor: &Option<TensorMut<'_>>) -> *const sys::fovea_tensor {
    tensor.as_ref().map_or(null(), |tensor| &tensor.raw)
}

/// Where a planned tensor lies in a run's slice: how many elements that has at least, and which is the tensor's first.
#[derive(Clone, Copy, Debug)]
pub struct Layout {
    dtype: i32,
    len: usize,
    first: usize,
}

impl Layout {
    fn of(raw: &sys::fovea_tensor) -> Self {
        let (lowest, highest) = reach(raw).unwrap_or((0, -1));
        Layout { dtype: raw.dtype, len: (highest - lowest + 1) as usize, first: -lowest as usize }
    }
}

/// The data of a tensor in a planned run.
#[derive(Clone, Copy)]
pub struct Data<'a> {
    pointer: *const c_void,
    len: usize,
    dtype: i32,
    size: usize,
    _data: PhantomData<&'a [u8]>,
}

/// The data of a tensor that a planned run writes.
pub struct DataMut<'a>(Data<'a>, PhantomData<&'a mut [u8]>);

unsafe impl Send for Data<'_> {}
unsafe impl Sync for Data<'_> {}
unsafe impl Send for DataMut<'_> {}
unsafe impl Sync for DataMut<'_> {}

impl<'a, T: Element, S: AsRef<[T]> + ?Sized> From<&'a S> for Data<'a>
where
    S: Slice<Item = T>,
{
    #[inline]
    fn from(data: &'a S) -> Self {
        let data = data.as_ref();
        let (size, pointer) = (std::mem::size_of::<T>(), data.as_ptr().cast());
        Data { pointer, len: data.len(), dtype: T::DTYPE, size, _data: PhantomData }
    }
}

impl<'a, T: Element, S: AsRef<[T]> + AsMut<[T]> + ?Sized> From<&'a mut S> for DataMut<'a>
where
    S: Slice<Item = T>,
{
    #[inline]
    fn from(data: &'a mut S) -> Self {
        let data = data.as_mut();
        let (size, pointer) = (std::mem::size_of::<T>(), data.as_mut_ptr() as *const c_void);
        DataMut(Data { pointer, len: data.len(), dtype: T::DTYPE, size, _data: PhantomData }, PhantomData)
    }
}

/// All that a tensor reaches, as pages of a [`crate::KvPool`] are handed to a run.
impl<'a> From<Tensor<'a>> for Data<'a> {
    fn from(tensor: Tensor<'a>) -> Self {
        let size = match tensor.raw.dtype {
            sys::FOVEA_I64 => 8,
            sys::FOVEA_F32 | sys::FOVEA_I32 => 4,
            sys::FOVEA_F16 | sys::FOVEA_BF16 => 2,
            _ => 1,
        };
        let layout = Layout::of(&tensor.raw);
        let pointer = tensor.raw.data.cast::<u8>().wrapping_sub(layout.first * size) as *const c_void;
        // A tensor of a shape alone has no memory.
        let len = if tensor.raw.data.is_null() { 0 } else { layout.len };
        Data { pointer, len, dtype: layout.dtype, size, _data: PhantomData }
    }
}

/// All that a tensor reaches, as pages of a [`crate::KvPool`] are handed to a run that writes them.
impl<'a> From<TensorMut<'a>> for DataMut<'a> {
    fn from(tensor: TensorMut<'a>) -> Self {
        DataMut(Tensor { raw: tensor.raw, _data: PhantomData }.into(), PhantomData)
    }
}

impl Tensor<'_> {
    /// A copy over memory of its own, which has to stay as long as the tensor is used.
    pub(crate) fn copied(&self) -> (Vec<u64>, Tensor<'static>) {
        let (data, layout) = (Data::from(*self), Layout::of(&self.raw));
        let bytes = data.len * data.size;
        let mut memory = vec![0u64; (bytes + 7) / 8 + 1];
        let mut raw = self.raw;
        if !raw.data.is_null() {
            let base = memory.as_mut_ptr().cast::<u8>();
            unsafe { std::ptr::copy_nonoverlapping(data.pointer.cast::<u8>(), base, bytes) };
            raw.data = base.wrapping_add(layout.first * data.size).cast();
        }
        (memory, Tensor { raw, _data: PhantomData })
    }
}

/// Slices, vectors and arrays.
pub trait Slice {
    type Item;
}
impl<T> Slice for [T] {
    type Item = T;
}
impl<T> Slice for Vec<T> {
    type Item = T;
}
impl<T, const N: usize> Slice for [T; N] {
    type Item = T;
}

impl Data<'_> {
    #[inline]
    pub(crate) fn pointer<T>(given: Option<Data<'_>>, planned: &Option<Layout>, name: &str) -> Result<*const T> {
        match (given, planned) {
            (None, _) => Ok(null()), // refused by the library where one was planned
            (Some(data), Some(layout)) if data.dtype == layout.dtype && data.len >= layout.len => {
                Ok(data.pointer.cast::<u8>().wrapping_add(layout.first * data.size).cast())
            }
            (Some(data), layout) => Err(mismatch(&data, layout, name)),
        }
    }
}

impl DataMut<'_> {
    #[inline]
    pub(crate) fn pointer<T>(given: Option<DataMut<'_>>, planned: &Option<Layout>, name: &str) -> Result<*mut T> {
        Ok(Data::pointer::<T>(given.map(|data| data.0), planned, name)? as *mut T)
    }
}

#[cold]
fn mismatch(data: &Data<'_>, layout: &Option<Layout>, name: &str) -> Error {
    let (status, why) = match layout {
        None => (Status::BadValue, "was not planned".to_string()),
        Some(layout) if layout.dtype != data.dtype => {
            (Status::BadDtype, format!("has elements of type {}, {} were planned", data.dtype, layout.dtype))
        }
        Some(layout) => (Status::BadShape, format!("has {} elements, the plan needs {}", data.len, layout.len)),
    };
    Error::new(status, format!("buffers.{name} {why}"))
}
